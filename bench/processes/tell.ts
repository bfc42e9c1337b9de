import { createServer } from "node:http";
import type { AddressInfo } from "node:net";

/**
 * Starts an HTTP server on a free port, which answers every request with the current value of `read` as JSON. Logs its URL
 * as the given event, so that the bench can find it. The server does not keep the process alive.
 */
export function serveJson(event: string, read: () => unknown): void {
  const server = createServer((_req, res) => {
    const body = JSON.stringify(read());
    res.writeHead(200, { "Content-Type": "application/json", "Content-Length": body.length }).end(body);
  });
  server.unref();
  server.listen(0, "127.0.0.1", () => {
    const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
    console.log(JSON.stringify({ event, url }));
  });
}
