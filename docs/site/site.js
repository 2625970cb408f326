// Searches, and shows where in the contents a page stands. What is searched comes as a script, which a page opened from a file may load too.
const { root } = document.currentScript.dataset;
const field = document.querySelector("[type=search]");
const list = field.nextElementSibling;

function weight(section, word) {
  const times = (text) => text.toLowerCase().split(word).length - 1;
  return times(section.text) + 20 * times(section.title) + 10 * times(section.page);
}

function found(words) {
  const weighed = sections.map((section) => ({ section, weights: words.map((word) => weight(section, word)) }));
  const sum = ({ weights }) => weights.reduce((a, b) => a + b, 0);
  return weighed.filter(({ weights }) => weights.every(Boolean)).sort((a, b) => sum(b) - sum(a)).slice(0, 12);
}

function item({ section }, word) {
  const link = document.createElement("a");
  const at = Math.max(0, section.text.toLowerCase().indexOf(word) - 40);
  link.href = `${root}/${section.url}`;
  link.append(Object.assign(document.createElement("b"), { textContent: section.title }));
  link.append(section.title === section.page ? "" : ` ${section.page}`, document.createElement("br"), section.text.slice(at, at + 120));
  const row = document.createElement("li");
  row.append(link);
  return row;
}

function show() {
  const words = field.value.toLowerCase().split(/\s+/).filter(Boolean);
  const rows = words.length && typeof sections !== "undefined" ? found(words).map((each) => item(each, words[0])) : [];
  list.replaceChildren(...(rows.length || !words.length ? rows : ["Nothing found"]));
  list.hidden = !words.length;
}

const contents = document.querySelector("#contents");
const current = contents.querySelector("[aria-current]");
if (current) contents.scrollTop = current.offsetTop - contents.offsetTop - contents.clientHeight / 2;

field.addEventListener("focus", () => {
  const script = Object.assign(document.createElement("script"), { src: `${root}/sections.js`, onload: show });
  document.head.append(script);
}, { once: true });
field.addEventListener("input", show);
field.form.addEventListener("submit", (event) => {
  event.preventDefault();
  list.querySelector("a")?.click();
});
document.addEventListener("keydown", (event) => {
  if (event.key === "/" && event.target !== field) { event.preventDefault(); field.focus(); }
  if (event.key === "Escape") { field.value = ""; show(); field.blur(); }
});
