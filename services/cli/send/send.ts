import { randomUUID } from "node:crypto";
import { messageOf, toAppError } from "../../../shared/platform/errors/app-error.ts";
import { programName } from "../../../shared/platform/lifecycle/environment.ts";
import { EXIT } from "../../../shared/platform/lifecycle/run-service.ts";
import { parseJson } from "../../../shared/platform/text/parse-json.ts";
import { shellLine, shellQuote } from "../../../shared/platform/text/shell-quote.ts";
import { systemClock } from "../../../shared/platform/time/clock.ts";
import { shownTexts } from "../../../shared/webhook-auth/auth-modes.ts";
import { compileFilter } from "../../../shared/webhook-auth/filter/filter.ts";
import { isOfAnotherEvent, makeDelivery, type Sender } from "../../../shared/webhook-auth/sample/delivery.ts";
import type { Draft } from "../../../shared/webhook-auth/sample/draft.ts";
import { type Answer, describeAnswer, exchange } from "../../../shared/webhook-auth/sample/exchange.ts";
import { bodyIn, bodyOf } from "../body.ts";
import type { ProgramDeps } from "../program-deps.ts";
import { counted, facts, jsonLine, plain } from "../text.ts";
import { findSender, type SendOptions } from "./target.ts";

/**
 * `postern send`: sends a sample webhook to an endpoint, signed as the real sender would sign it, and prints the
 * gateway's answer. Exit code 1 if the gateway refuses the webhook.
 */
export async function sendSample(deps: ProgramDeps, path: string, options: SendOptions): Promise<number> {
  const { print, say, note, printError, env } = deps;
  try {
    const sender = findSender(path, options, env);
    const draft = makeDelivery(sender, randomUUID(), new Date(systemClock()), toReplaced(options));
    note(bodyNote(sender, options));
    if (options.dryRun) {
      note(filterNote(sender, draft));
      print(
        options.json
          ? jsonLine({ request: { ...toJson(sender, draft, (text) => text), ...bodyJson(draft) } })
          : curlOf(sender, draft),
      );
      return EXIT.ok;
    }
    const hide = createHide(sender, draft);
    say(requestText(sender, draft, hide));
    const rejected = `${programName(env)} ${shellLine(["rejected", "list", "--endpoint", path, "--config-dir", options.configDir])}`;
    let isAccepted = true;
    for (let sent = 0; sent <= options.repeat; sent += 1) {
      const answer = await exchange(sender.url, draft);
      const described = describeAnswer(answer);
      isAccepted &&= described.accepted;
      if (options.json) print(jsonLine({ request: toJson(sender, draft, hide), answer: answerJson(answer) }));
      say(answerText(answer, described, rejected));
      if (!described.accepted && (options.json || options.quiet)) printError(`${plain(described.detail)}\n`);
    }
    return isAccepted ? EXIT.ok : EXIT.failed;
  } catch (thrown) {
    const error = toAppError(thrown);
    printError(error);
    return error.code === "start.config_invalid" ? EXIT.config : EXIT.failed;
  }
}

/** Returns a remark if the preset has a sample body only for another event than that of --event. Empty otherwise. */
function bodyNote(sender: Sender, { event, body }: SendOptions): string {
  if (event === undefined || body !== undefined || !isOfAnotherEvent(sender, event)) return "";
  return `the body is the sample of another event, and may not fit ${plain(event)}; to send your own, use --body @file\n`;
}

/**
 * Says whether the endpoint's filter (`when`) would accept the request, for a dry run, which does not send it. Empty if
 * the endpoint has no filter.
 */
function filterNote({ endpoint: { when } }: Sender, { headers, body }: Draft): string {
  if (when === undefined) return "";
  try {
    if (compileFilter(when)({ rawHeaders: headers.flat() }, body)) return "when is true for this request\n";
    return "when is false for this request: the gateway would not queue it\n";
  } catch (error) {
    return `when has no result for this request: the gateway would answer 503 (${plain(messageOf(error))})\n`;
  }
}

function toReplaced({ event, body, header, deliveryId }: SendOptions) {
  return { event, body: body === undefined ? undefined : readBody(body), headers: header, deliveryId };
}

const STDIN = 0;

function readBody(text: string): Buffer {
  if (!text.startsWith("@")) return bodyOf(text);
  return bodyIn(text === "@-" ? STDIN : text.slice(1));
}

/**
 * Returns a function that replaces secrets and bearer tokens in a printed text. Signatures stay visible: each is valid
 * only for this body, so it is no secret.
 */
function createHide({ endpoint: { proof }, secrets }: Sender, { headers }: Draft): (text: string) => string {
  const tokens = headers.flatMap(([, value]) => /^Bearer (.+)/.exec(value)?.[1] ?? []);
  const hidden = secrets
    .flatMap((secret) => shownTexts(proof, secret.reveal()))
    .concat(proof.by === "jwt" ? tokens : [])
    .flatMap((text) => [text, encodeURIComponent(text)])
    .filter((text) => text !== "");
  return (text) => hidden.reduce((rest, each) => rest.replaceAll(each, "[secret]"), text);
}

function fullUrl({ url }: Sender, { target }: Draft): string {
  return `${url.origin}${target}`;
}

function requestText(sender: Sender, draft: Draft, hide: (text: string) => string): string {
  const headers = draft.headers.map(([name, value]) => [name, hide(value)] as const);
  const size = ["body", counted(draft.body.length, "byte")] as const;
  return `${draft.method} ${hide(fullUrl(sender, draft))}\n${facts([...headers, size], "  ")}`;
}

function toJson(sender: Sender, draft: Draft, hide: (text: string) => string) {
  return {
    method: draft.method,
    url: hide(fullUrl(sender, draft)),
    headers: Object.fromEntries(draft.headers.map(([name, value]) => [name, hide(value)])),
    body_bytes: draft.body.length,
  };
}

/** Returns the whole body as a field of the JSON output. A body that is not text is in base64. */
function bodyJson({ body }: Draft) {
  const text = body.toString("utf8");
  return Buffer.from(text).equals(body) ? { body: text } : { body_base64: body.toString("base64") };
}

function answerJson({ status, replayed, text }: Answer) {
  const json = parseJson(text);
  return { status, replayed, ...(typeof json === "object" && json !== null ? { json } : { text }) };
}

/** Formats the answer with an explanation. */
function answerText(
  answer: Answer,
  { accepted, detail }: ReturnType<typeof describeAnswer>,
  rejected: string,
): string {
  const first = `\n${answer.status} ${plain(answer.reason)}${answer.text === "" ? "" : `  ${plain(answer.text)}`}\n`;
  const hint =
    !accepted && answer.status === 401
      ? `\nThe answer does not tell senders why. To see the reason, run: ${rejected}`
      : "";
  return `${first}${plain(detail)}${hint}\n`;
}

/**
 * Formats the request as a curl command. A command line can contain only text, so any other body is written in base64
 * and piped to curl.
 */
function curlOf(sender: Sender, draft: Draft): string {
  const { method, headers, body } = draft;
  const text = body.toString("utf8");
  // curl treats a text that begins with @ as the name of a file.
  const isText = Buffer.from(text).equals(body) && !text.includes("\0") && !text.startsWith("@");
  const before = isText ? "" : `printf %s ${body.toString("base64")} | base64 -d | `;
  const words = [
    `curl -i -X ${method} ${shellQuote(fullUrl(sender, draft))}`,
    ...headers.map(([name, value]) => `-H ${shellQuote(`${name}: ${value}`)}`),
    `--data-binary ${isText ? shellQuote(text) : "@-"}`,
  ];
  return `${before}${words.join(" \\\n  ")}\n`;
}
