import { createServer, request } from "node:http";
import type { AddressInfo } from "node:net";
import { announce } from "./settings.ts";

/*
 * Baseline with which the bench compares the payment gateway's 402 answers. At its start it fetches one 402 answer of the
 * gateway. Then it answers every request with the same status, headers and body. It knows no paths, jobs or prices, and
 * logs nothing.
 */
const [url = ""] = process.argv.slice(2);

type Replayed = { status: number; headers: string[]; body: Buffer };

function fetchOnce(): Promise<Replayed> {
  return new Promise((resolve, reject) => {
    const asked = request(url, { method: "POST" }, (res) => {
      const chunks: Buffer[] = [];
      res.on("data", (chunk: Buffer) => chunks.push(chunk));
      res.on("end", () => {
        const pairs = res.rawHeaders.map((name, i, all) => (i % 2 === 0 ? [name, all[i + 1] ?? ""] : []));
        const headers = pairs.filter(([name = "date"]) => name.toLowerCase() !== "date").flat();
        resolve({ status: res.statusCode ?? 0, headers, body: Buffer.concat(chunks) });
      });
    });
    asked.on("error", reject);
    asked.end();
  });
}

const { status, headers, body } = await fetchOnce();
const server = createServer((_req, res) => {
  res.writeHead(status, headers);
  res.end(body);
});
server.listen(0, "127.0.0.1", () => {
  announce({ address: `127.0.0.1:${(server.address() as AddressInfo).port}` });
});
