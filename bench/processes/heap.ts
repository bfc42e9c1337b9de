import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";

/*
 * Loaded into a process whose memory is watched. It tells on a port of its own (`bench.heap` in the log) how many bytes the process
 * keeps when its garbage is collected.
 */
setFlagsFromString("--expose-gc");
const collect = runInNewContext("gc") as () => void;

const server = createServer((_req, res) => {
  collect();
  const { heapUsed, external } = process.memoryUsage();
  const body = String(heapUsed + external);
  res.writeHead(200, { "Content-Length": body.length }).end(body);
});
server.unref();
server.listen(0, "127.0.0.1", () => {
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  console.log(JSON.stringify({ event: "bench.heap", url }));
});
