import { type IncomingHttpHeaders, request } from "node:http";

export type Reply = { status: number; headers: IncomingHttpHeaders; text: string };

export type Sent = {
  method: "GET" | "POST";
  path: string;
  headers?: Readonly<Record<string, string>>;
  body?: string;
};

const TIMEOUT_MS = 10_000;

/** One request to `host:port` on a connection of its own. */
export function httpRequest(address: string, { method, path, headers = {}, body }: Sent): Promise<Reply> {
  const url = new URL(path, `http://${address}`);
  const signal = AbortSignal.timeout(TIMEOUT_MS);
  return new Promise((resolve, reject) => {
    const outgoing = request(url, { method, headers, agent: false, signal }, async (res) => {
      try {
        let text = "";
        for await (const chunk of res.setEncoding("utf8")) text += chunk;
        resolve({ status: res.statusCode ?? 0, headers: res.headers, text });
      } catch (error) {
        reject(error);
      }
    });
    outgoing.on("error", reject);
    outgoing.end(body);
  });
}
