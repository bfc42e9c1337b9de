import { request as requestHttp } from "node:http";
import { request as requestHttps } from "node:https";
import type { Duplex } from "node:stream";
import { messageOf } from "../../platform/errors/app-error.ts";
import { parseJson } from "../../platform/text/parse-json.ts";
import type { Draft } from "./draft.ts";

export type Answer = { status: number; reason: string; replayed: boolean; text: string };

const TIMEOUT_MS = 60_000;

/** Sends a finished delivery over a new connection, or over the one that `connect` returns. It follows no redirect. */
export function exchange(
  url: URL,
  { method, target, headers, body }: Draft,
  connect?: () => Duplex,
): Promise<Answer> {
  const request = url.protocol === "https:" ? requestHttps : requestHttp;
  const sent = ["Host", url.host, "Content-Length", String(body.length), ...headers.flat()];
  return new Promise((resolve, reject) => {
    const failed = (cause: Error): void =>
      reject(new Error(`${url.origin} does not answer: ${messageOf(cause)}`, { cause }));
    const { hostname, port } = url;
    const signal = AbortSignal.timeout(TIMEOUT_MS);
    const connection = connect === undefined ? { agent: false } : { createConnection: connect };
    const host = hostname.replace(/^\[|\]$/g, "");
    const sending = request(
      { host, port, method, path: target, headers: sent, signal, ...connection },
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

/** Describes the gateway's answer in words. */
export function describeAnswer(answer: Answer): {
  accepted: boolean;
  detail: string;
  call_id: string | null;
} {
  const json = parseJson(answer.text);
  const members = typeof json === "object" && json !== null ? (json as Record<string, unknown>) : {};
  const { call_id } = members;
  const accepted = answer.status >= 200 && answer.status < 300;
  const detail = accepted ? wordsOfSuccess(answer, members) : whyRefused(answer, members);
  return { accepted, detail, call_id: accepted && typeof call_id === "string" ? call_id : null };
}

function whyRefused({ reason }: Answer, { title, detail }: Record<string, unknown>): string {
  const parts = new Set([title, detail].filter((part) => typeof part === "string"));
  const why = [...parts].join(": ");
  return `refused: ${why === "" ? reason : why}`;
}

function wordsOfSuccess({ replayed }: Answer, { status, job_id, call_id }: Record<string, unknown>): string {
  if (replayed) return "accepted: this delivery is a repeat, and its call does not run again";
  if (typeof call_id === "string") return `accepted: job ${String(job_id)}, call ${call_id}`;
  return status === "dropped" ? "dropped: the endpoint's route_by or when excludes this event" : "accepted";
}
