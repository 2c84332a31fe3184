"use strict";
// Pages work without this. It says when something was not saved, that work goes on, and lets a file be dropped.
(() => {
  const say = (text) => {
    const line = document.createElement("p");
    line.textContent = text;
    document.getElementById("status").replaceChildren(line);
  };
  document.addEventListener("htmx:sendError", () => say("Not saved: there is no connection. Try again."));
  document.addEventListener("htmx:responseError", (event) => {
    const page = new DOMParser().parseFromString(event.detail.xhr.responseText, "text/html");
    const told = page.querySelector("main p:not([role])");
    say(`Not saved. ${told ? told.textContent : ""}`);
  });
  document.addEventListener("submit", (event) => {
    const busy = event.target.dataset.busy;
    if (busy) {
      say(busy);
      if (event.submitter) event.submitter.setAttribute("aria-busy", "true");
    }
  });
  const working = document.getElementById("working");
  const ask = async () => {
    const answer = await fetch(working.dataset.again, { headers: { "HX-Request": "true" }, redirect: "manual" }).catch(() => null);
    if (answer && !answer.headers.get("X-Working")) return location.reload();
    if (answer) {
      const part = new DOMParser().parseFromString(await answer.text(), "text/html");
      working.replaceChildren(...part.querySelector("div").childNodes);
    }
    setTimeout(ask, 1000);
  };
  if (working) setTimeout(ask, 1000);
  document.querySelectorAll(".drop").forEach((place) => {
    const file = place.querySelector("input[type=file]");
    ["dragenter", "dragover"].forEach((name) => place.addEventListener(name, (event) => {
      event.preventDefault();
      place.classList.add("over");
    }));
    place.addEventListener("dragleave", () => place.classList.remove("over"));
    place.addEventListener("drop", (event) => {
      event.preventDefault();
      place.classList.remove("over");
      file.files = event.dataTransfer.files;
    });
  });
})();
