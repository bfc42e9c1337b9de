import { createServer } from "node:http";
import type { AddressInfo } from "node:net";

/** Tells whoever asks, as JSON, on a port of its own, whose URL is in the log under this event. It keeps no process alive. */
export function tell(event: string, read: () => unknown): void {
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
