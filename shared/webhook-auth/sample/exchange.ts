import { request as requestHttp } from "node:http";
import { request as requestHttps } from "node:https";
import { messageOf } from "../../platform/errors/app-error.ts";
import type { Draft } from "./draft.ts";

export type Answer = { status: number; reason: string; replayed: boolean; text: string };

const TIMEOUT_MS = 60_000;

/** One exchange, whose bytes are the draft's. Follows no redirect. */
export function exchange(url: URL, { method, target, headers, body }: Draft): Promise<Answer> {
  const request = url.protocol === "https:" ? requestHttps : requestHttp;
  const sent = ["Host", url.host, "Content-Length", String(body.length), ...headers.flat()];
  return new Promise((resolve, reject) => {
    const failed = (cause: Error): void =>
      reject(new Error(`${url.origin} does not answer: ${messageOf(cause)}`, { cause }));
    const { hostname, port } = url;
    const signal = AbortSignal.timeout(TIMEOUT_MS);
    const host = hostname.replace(/^\[|\]$/g, "");
    const sending = request(
      { host, port, method, path: target, headers: sent, signal, agent: false },
      (response) => {
        const chunks: Buffer[] = [];
        response.on("data", (chunk: Buffer) => chunks.push(chunk));
        response.on("error", failed);
        response.on("end", () =>
          resolve({
            status: response.statusCode ?? 0,
            reason: response.statusMessage ?? "",
            replayed: response.headers["idempotent-replayed"] === "true",
            text: Buffer.concat(chunks).toString("utf8"),
          }),
        );
      },
    );
    sending.on("error", failed);
    sending.end(body);
  });
}
