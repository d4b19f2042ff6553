// Buttons for the server's examples.

import {at, element, reach} from "/client.js";

/** Show examples under their texts, or else their names; `take` is called with the clicked one and a function that gets its content, a Blob. */
export function offerExamples(examples, take) {
  at("examples").hidden = !examples.length;
  at("clips").replaceChildren(...examples.map((example, index) => {
    const button = element("button", {type: "button", dir: "auto"}, example.reference || example.name);
    button.addEventListener("click", () => take(example, () => content(index)));
    return button;
  }));
}

async function content(index) {
  return (await reach(`/examples/${index}`)).blob();
}
