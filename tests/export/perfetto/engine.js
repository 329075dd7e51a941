// Runs Perfetto's trace processor, the WebAssembly build of its own web page, in Node.
//
// The engine believes itself to be a page's worker: it is given a port whose messages are the bytes
// of TraceProcessorRpcStream. Here they come from stdin and go to stdout. FOLDER is the argument.
"use strict";
const fs = require("node:fs");
const path = require("node:path");
const vm = require("node:vm");

const node = globalThis.process;
const folder = node.argv[2];

function file(name) {
  const data = fs.readFileSync(path.join(folder, path.basename(String(name))));
  return data.buffer.slice(data.byteOffset, data.byteOffset + data.byteLength);
}

function write(bytes) {
  for (let done = 0; done < bytes.length; ) {
    try {
      done += fs.writeSync(1, bytes, done, bytes.length - done);
    } catch (error) {
      if (error.code !== "EAGAIN") throw error;
    }
  }
}

function complain(...words) {
  fs.writeSync(2, words.join(" ") + "\n");
}

// What a worker of a page has.
Object.assign(globalThis, {
  self: globalThis,
  location: { href: "http://127.0.0.1/engine_bundle.js", protocol: "http:", host: "127.0.0.1" },
  WorkerGlobalScope: class {},
  XMLHttpRequest: class {
    open(_method, url) {
      this.url = url;
    }
    send() {
      this.response = file(this.url);
      this.status = 200;
    }
  },
  fetch: async (url) => ({ ok: true, status: 200, url, arrayBuffer: async () => file(url) }),
});
console.log = console.warn = console.error = complain;

const port = { onmessage: null, postMessage: write };
globalThis.process = undefined; // The engine looks for it, and takes another path where it is.
vm.runInThisContext(Buffer.from(file("engine_bundle.js")).toString(), { filename: "engine.js" });
globalThis.process = node;

setTimeout(() => {
  globalThis.onmessage({ data: port });
  node.stdin.on("data", (chunk) => port.onmessage({ data: new Uint8Array(chunk) }));
  node.stdin.on("end", () => node.exit(0));
}, 0);
