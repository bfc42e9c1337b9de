import { request as requestHttp } from "node:http";
import { request as requestHttps } from "node:https";
import { messageOf, toAppError } from "../../../shared/platform/errors/app-error.ts";
import { programName } from "../../../shared/platform/lifecycle/environment.ts";
import { EXIT } from "../../../shared/platform/lifecycle/run-service.ts";
import { shellLine, shellQuote } from "../../../shared/platform/text/shell-quote.ts";
import { systemClock } from "../../../shared/platform/time/clock.ts";
import { shownTexts } from "../../../shared/webhook-auth/auth-modes.ts";
import { isSuccess } from "../http.ts";
import type { ProgramDeps } from "../program-deps.ts";
import { counted, facts, jsonLine, plain } from "../text.ts";
import { makeDelivery } from "./delivery.ts";
import type { Draft } from "./draft.ts";
import { findTarget, type SendOptions, type Target } from "./target.ts";

/** `postern send`: one delivery, signed as its sender would, and what the gateway says to it. 1 if it is refused. */
export async function sendSample(deps: ProgramDeps, path: string, options: SendOptions): Promise<number> {
  const { print, say, printError, env } = deps;
  try {
    const target = findTarget(path, options, env);
    const draft = makeDelivery(target, options, new Date(systemClock()));
    if (options.dryRun) {
      print(
        options.json
          ? jsonLine({ request: { ...toJson(target, draft, (text) => text), ...bodyJson(draft) } })
          : curlOf(target, draft),
      );
      return EXIT.ok;
    }
    const hide = createHide(target);
    say(requestText(target, draft, hide));
    const rejected = `${programName(env)} ${shellLine(["rejected", "list", "--endpoint", path, "--config-dir", options.configDir])}`;
    let isAccepted = true;
    for (let sent = 0; sent <= options.repeat; sent += 1) {
      const answer = await exchange(target.url, draft);
      isAccepted &&= isSuccess(answer);
      if (options.json) print(jsonLine({ request: toJson(target, draft, hide), answer: answerJson(answer) }));
      say(answerText(answer, rejected));
      if (!isSuccess(answer) && (options.json || options.quiet)) printError(`${whyRefused(answer)}\n`);
    }
    return isAccepted ? EXIT.ok : EXIT.failed;
  } catch (thrown) {
    const error = toAppError(thrown);
    printError(error);
    return error.code === "start.config_invalid" ? EXIT.config : EXIT.failed;
  }
}

type Answer = { status: number; reason: string; replayed: boolean; text: string };

const TIMEOUT_MS = 60_000;

/** One exchange, whose bytes are the draft's. Follows no redirect. */
function exchange(url: URL, { method, target, headers, body }: Draft): Promise<Answer> {
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

/** Takes out what is a secret itself; a signature is none. */
function createHide({ endpoint: { proof }, secrets }: Target): (text: string) => string {
  const hidden = secrets
    .flatMap((secret) => shownTexts(proof, secret.reveal()))
    .flatMap((text) => [text, encodeURIComponent(text)])
    .filter((text) => text !== "");
  return (text) => hidden.reduce((rest, each) => rest.replaceAll(each, "[secret]"), text);
}

function fullUrl({ url }: Target, { target }: Draft): string {
  return `${url.origin}${target}`;
}

function requestText(target: Target, draft: Draft, hide: (text: string) => string): string {
  const headers = draft.headers.map(([name, value]) => [name, hide(value)] as const);
  const size = ["body", counted(draft.body.length, "byte")] as const;
  return `${draft.method} ${hide(fullUrl(target, draft))}\n${facts([...headers, size], "  ")}`;
}

function toJson(target: Target, draft: Draft, hide: (text: string) => string) {
  return {
    method: draft.method,
    url: hide(fullUrl(target, draft)),
    headers: Object.fromEntries(draft.headers.map(([name, value]) => [name, hide(value)])),
    body_bytes: draft.body.length,
  };
}

/** The whole body; in base64 if it is no text. */
function bodyJson({ body }: Draft) {
  const text = body.toString("utf8");
  return Buffer.from(text).equals(body) ? { body: text } : { body_base64: body.toString("base64") };
}

function answerJson({ status, replayed, text }: Answer) {
  const json = parsed(text);
  return { status, replayed, ...(json === undefined ? { text } : { json }) };
}

function parsed(text: string): Record<string, unknown> | undefined {
  try {
    const json: unknown = JSON.parse(text);
    return typeof json === "object" && json !== null ? (json as Record<string, unknown>) : undefined;
  } catch {
    return undefined;
  }
}

/** The answer, and in words what it means. */
function answerText(answer: Answer, rejected: string): string {
  const json = parsed(answer.text) ?? {};
  const first = `\n${answer.status} ${plain(answer.reason)}${answer.text === "" ? "" : `  ${plain(answer.text)}`}\n`;
  if (isSuccess(answer)) return `${first}${wordsOfSuccess(answer, json)}\n`;
  const hint =
    answer.status === 401
      ? `\nThe answer does not tell senders why. To see the reason, run: ${rejected}`
      : "";
  return `${first}${whyRefused(answer)}${hint}\n`;
}

function whyRefused({ text, reason }: Answer): string {
  const { title, detail } = parsed(text) ?? {};
  const why = [title, detail].filter((part) => typeof part === "string").join(": ");
  return `refused: ${plain(why === "" ? reason : why)}`;
}

function wordsOfSuccess({ replayed }: Answer, { status, job_id, call_id }: Record<string, unknown>): string {
  if (replayed) return "accepted: this delivery is a repeat, and its call does not run again";
  if (typeof call_id === "string") return plain(`accepted: job ${String(job_id)}, call ${call_id}`);
  return status === "dropped" ? "dropped: the endpoint has no job for this event" : "accepted";
}

/** Bytes that are no text go through base64, since a command line cannot hold them. */
function curlOf(target: Target, draft: Draft): string {
  const { method, headers, body } = draft;
  const text = body.toString("utf8");
  // curl would take a text that begins with @ for a file.
  const isText = Buffer.from(text).equals(body) && !text.includes("\0") && !text.startsWith("@");
  const before = isText ? "" : `printf %s ${body.toString("base64")} | base64 -d | `;
  const words = [
    `curl -i -X ${method} ${shellQuote(fullUrl(target, draft))}`,
    ...headers.map(([name, value]) => `-H ${shellQuote(`${name}: ${value}`)}`),
    `--data-binary ${isText ? shellQuote(text) : "@-"}`,
  ];
  return `${before}${words.join(" \\\n  ")}\n`;
}
