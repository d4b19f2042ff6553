const items = [...document.querySelectorAll("#utterances > li")];
const [kind, words, count] = ["kind", "words", "count"].map((id) => document.getElementById(id));
const spaces = document.body.dataset.unit === "char" ? /[^\S\n]+/g : /^\s+|\s+$/g; // spaces that do not matter
const simple = (text) => text.normalize("NFC").toLowerCase().replace(spaces, "");
const texts = items.map((item) => simple(item.dataset.find));

function filter() {
  const wanted = simple(words.value);
  let shown = 0;
  items.forEach((item, index) => {
    item.hidden = !((!kind.value || item.dataset[kind.value] !== "0") && texts[index].includes(wanted));
    shown += !item.hidden;
  });
  count.textContent = `${shown} of ${items.length} shown`;
}

const player = new Audio();
let playing;  // button of the audio that plays

function stop() {
  if (playing) playing.textContent = "Play";
  playing = undefined;
}

function play(button) {
  const again = playing !== button;
  player.pause();
  stop();
  if (!again) return;
  player.src = button.dataset.audio;
  player.play().catch(() => {});  // the error event reports it
  playing = button;
  button.textContent = "Stop";
}

player.addEventListener("ended", stop);
player.addEventListener("pause", () => player.paused && stop());  // at the end of a segment
player.addEventListener("error", () => {
  if (!playing) return;
  playing.disabled = true;
  playing.textContent = "Audio not found";
  playing = undefined;
});
document.getElementById("utterances").addEventListener("click", (event) => {
  const button = event.target.closest("button");
  if (button) play(button);
});
kind.addEventListener("change", filter);
words.addEventListener("input", filter);
document.querySelector("form").addEventListener("submit", (event) => event.preventDefault());
document.querySelector("form").hidden = false;
filter();
