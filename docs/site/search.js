// The search runs in a worker that fetches its index. A page opened from the disk may have neither, so there the index comes as a script
// (hooks.py writes it), and this object answers in the worker's place.
if (location.protocol === "file:") {
  const load = (name) => new Promise((resolve, reject) => {
    document.head.append(Object.assign(document.createElement("script"), { src: `${base_url}/search/${name}`, onload: resolve, onerror: reject }));
  });

  window.Worker = class {
    async postMessage({ init, query }) {
      if (init) {
        await Promise.all([load("lunr.js"), load("search_index.js")]);
        const { config, docs } = search_index;
        lunr.tokenizer.separator = new RegExp(config.separator);
        this.documents = new Map(docs.map((each) => [each.location, each]));
        this.index = lunr(function () {
          this.field("title");
          this.field("text");
          this.ref("location");
          docs.forEach((each) => this.add(each));
        });
        this.onmessage({ data: { config } });
        this.onmessage({ data: { allowSearch: true } });
        document.getElementById("properdocs-search-query").dispatchEvent(new Event("keyup")); // what was typed meanwhile
      } else {
        const found = this.index.search(query).map(({ ref }) => this.documents.get(ref));
        this.onmessage({ data: { results: found.map((each) => ({ ...each, summary: each.text.substring(0, 200) })) } });
      }
    }
  };
}
