import { AppError, messageOf } from "../../../shared/errors/app-error.ts";
import { missingPackages } from "../../../shared/lifecycle/optional-packages.ts";
import { EXIT } from "../../../shared/lifecycle/run-service.ts";
import { shellQuote } from "../../../shared/text/shell-quote.ts";
import { systemClock } from "../../../shared/time/clock.ts";
import { toIso } from "../../../shared/time/iso.ts";
import { type Answer, post, reasonOf, textIn, wordsOf } from "../http.ts";
import { type BodyOptions, readBody } from "../options.ts";
import type { ProgramDeps } from "../program-deps.ts";
import type { Terminal } from "../terminal.ts";
import { jsonLine, plain } from "../text.ts";
import { findJob } from "./find-job.ts";
import { followCall } from "./follow.ts";
import type { Payer } from "./payer.ts";
import { payerKey, whyNoKey } from "./payer-key.ts";
import { PayFailure, type Purchase, receiptText, toJson, toReceipt } from "./purchase.ts";
import { requireFits } from "./require-fits.ts";
import {
  callIn,
  type JobResult,
  laterResult,
  preferWait,
  printResult,
  requireNoFailure,
  resultIn,
  resultJson,
} from "./result.ts";
import { interruptible, sendUntilAnswered, type Tell } from "./send.ts";

export type PayOptions = BodyOptions & {
  /** Where the job is sold, if its name is given. */
  gateway?: URL;
  contentType?: string;
  max: string;
  token?: Record<string, number>;
  quote?: string;
  follow: boolean;
  timeout: number;
  /** In seconds; true without a number. */
  wait?: number | true;
  json?: boolean;
  quiet?: boolean;
};

const WAIT_SECS = 30;

/** What `payer.ts` imports. */
const PACKAGES = ["@x402/evm", "@x402/extensions", "@x402/fetch", "viem"];

/** `postern pay`: buys one job, by its URL or its name. 0 once the job has ended well, or the runner has it; with --no-follow once it is accepted. */
export async function pay(deps: ProgramDeps, job: URL | string, options: PayOptions): Promise<number> {
  const key = payerKey(deps.env);
  if (key === undefined) {
    deps.printError(new AppError("start.config_invalid", { reason: whyNoKey(deps.env) }));
    return EXIT.config;
  }
  const missing = missingPackages("pay", PACKAGES);
  if (missing !== undefined) {
    deps.printError(`${missing.message}\n`);
    return EXIT.config;
  }
  const purchase: Purchase = {};
  const { json = false, quiet = false } = options;
  const tell: Tell = (step, fields, text) => {
    if (json && !quiet) deps.print(jsonLine({ step, ...fields }));
    else deps.say(text);
  };
  const waitSecs = options.wait === true ? WAIT_SECS : options.wait;
  let result: JobResult | undefined;
  try {
    const { createPayer } = await import("./payer.ts");
    const deadline = systemClock() + (options.timeout + (waitSecs ?? 0)) * 1000;
    const url = await urlOf(job, options, deadline, tell);
    purchase.url = url.href;
    const screen = deps.terminal.drawsProgress && !json && !quiet ? deps.terminal : undefined;
    const trade = { payer: createPayer(key), url, deadline, waitSecs, screen };
    const bought = await buy(trade, options, purchase, tell);
    ({ result } = bought);
    purchase.outcome = bought.outcome;
  } catch (error) {
    purchase.outcome = error instanceof PayFailure ? error.outcome : "failed";
    purchase.error = messageOf(error);
    deps.printError(`${purchase.error}\n`);
  }
  if (json) deps.print(jsonLine({ ...toJson(purchase), ...(result && { result: resultJson(result) }) }));
  else if (result !== undefined) printResult(deps, result, quiet);
  return purchase.outcome === "injected" || purchase.outcome === "accepted" ? EXIT.ok : EXIT.failed;
}

async function urlOf(job: URL | string, { gateway }: PayOptions, deadline: number, tell: Tell): Promise<URL> {
  if (typeof job !== "string" || gateway === undefined) return new URL(job);
  const url = await findJob(gateway, job, deadline);
  tell("job", { name: job, url: url.href }, `job: ${job} is ${url.href}\n`);
  return url;
}

type Trade = {
  payer: Payer;
  url: URL;
  deadline: number;
  waitSecs: number | undefined;
  /** Where the progress of the job is drawn. */
  screen: Terminal | undefined;
};

/** What a purchase has come to, and the job's output, if it was waited for and came in time. */
type Bought = { outcome: "accepted" | "injected"; result?: JobResult | undefined };

/** From the price to the call's end. Writes each thing it learns into `purchase`. */
async function buy(
  { payer, url, deadline, waitSecs, screen }: Trade,
  options: PayOptions,
  purchase: Purchase,
  tell: Tell,
): Promise<Bought> {
  const body = readBody(options);
  const quote: Record<string, string> =
    options.quote === undefined ? {} : { "X-PLATFORM-QUOTE": options.quote };

  const required = payer.readRequired((await askPrice(url, quote, deadline)).headers);
  const price = payer.choose(required, { max: options.max, tokens: options.token ?? {} });
  const { offer } = price;
  Object.assign(purchase, { payer: payer.address, price: price.text, offer });
  const { network, payTo: pay_to } = offer;
  const cost = { price: price.text, network, pay_to };
  tell("price", cost, `price: ${price.text} on ${plain(network)}, to ${plain(pay_to)}\n`);

  await requireFits(url, body, deadline);
  const signed = await payer.sign(required, price);
  const { nonce, validBefore } = signed;
  Object.assign(purchase, { nonce, validBefore });
  const until = toIso(validBefore * 1000);
  const headers = {
    ...signed.headers,
    ...quote,
    ...preferWait(waitSecs),
    "Content-Type": options.contentType ?? typeOf(body),
  };
  const answer = await interruptible((signal) => {
    tell(
      "signed",
      { ...cost, payer: payer.address, valid_before: until, nonce },
      `signed: ${price.text} from ${payer.address} to ${plain(pay_to)}, valid until ${until}, nonce ${nonce}\n`,
    );
    return sendUntilAnswered({ url, headers, body, waitMs: (waitSecs ?? 0) * 1000 }, deadline, signal, tell);
  }).catch((error: unknown) => {
    if (!(error instanceof PayFailure)) throw error;
    purchase.paymentHeaders = signed.headers;
    purchase.statusUrl = error.statusUrl;
    const reason = howToAskAgain(error, until, url, headers, options);
    throw new PayFailure("unknown", { reason, cause: error });
  });

  const paid = payer.readResponse(answer.headers);
  const result = noteAnswer(answer, paid, purchase);
  requireAccepted(answer);
  const { callId, transaction } = purchase;
  tell(
    "accepted",
    { call_id: callId, transaction },
    `accepted: call ${callId ?? "?"}, transaction ${transaction ?? "?"}\n`,
  );
  purchase.receipt = toReceipt(result === undefined ? answer.json["receipt"] : undefined, paid);
  tell("receipt", { receipt: purchase.receipt }, receiptText(purchase.receipt));
  if (result !== undefined) return { outcome: "injected", result };
  if (!options.follow) return { outcome: "accepted" };
  const token = textIn(answer, "result_token");
  const outcome = await followCall(url, purchase, { token, deadline, tell, screen });
  const wanted = waitSecs !== undefined && outcome === "injected";
  return { outcome, result: wanted ? await askLater(answer, purchase, deadline, tell) : undefined };
}

/** Writes down what an answer says of the call. Returns the job's output, if the answer is that. */
function noteAnswer(answer: Answer, paid: object | undefined, purchase: Purchase): JobResult | undefined {
  const result = resultIn(answer);
  const { transaction } = { transaction: undefined, ...paid } as { transaction: unknown };
  purchase.status = answer.status;
  if (result === undefined) {
    purchase.statusUrl = textIn(answer, "status_url");
    purchase.callId = textIn(answer, "call_id");
    purchase.transaction = textIn(answer, "transaction");
  } else {
    Object.assign(purchase, callIn(answer), { state: "injected" });
    purchase.transaction = typeof transaction === "string" ? plain(transaction) : undefined;
  }
  return result;
}

/** The output of a job that was not there in time. Only the answer to a payment's first request tells how to get it. */
async function askLater(
  answer: Answer,
  { followedUrl }: Purchase,
  deadline: number,
  tell: Tell,
): Promise<JobResult | undefined> {
  const token = textIn(answer, "result_token");
  if (followedUrl === undefined || token === undefined) {
    const text = "no result: this request was not told how to get it; sign in as the payer for it\n";
    tell("no_result", { reason: "the answer had no result_token" }, text);
    return undefined;
  }
  const result = await laterResult(new URL(`${followedUrl}/result`), token, deadline);
  if (typeof result !== "string") return result;
  tell("no_result", { reason: result }, `no result: ${result}\n`);
  return undefined;
}

/** Gets the 402. The price does not depend on the body, so the body is not sent. */
async function askPrice(url: URL, headers: Record<string, string>, deadline: number): Promise<Answer> {
  const answer = await post({ url, headers, body: undefined }, deadline).catch((cause: unknown) => {
    const reason = `${url.host} cannot be asked for the price: ${reasonOf(cause)}`;
    throw new PayFailure("failed", { reason, cause });
  });
  if (answer.status === 402) return answer;
  const reason = `${url.href} asks for no payment, it answers ${wordsOf(answer)}; nothing was signed`;
  throw new PayFailure("refused", { reason });
}

/** Nobody may take this for "not paid", so it says how to send the same payment again. */
function howToAskAgain(
  { message, statusUrl }: PayFailure,
  until: string,
  url: URL,
  headers: Record<string, string>,
  options: BodyOptions,
): string {
  const flags = Object.entries(headers).map(([name, value]) => `-H ${shellQuote(`${name}: ${value}`)}`);
  return [
    `whether the payment settled is unknown (${message}). Do not pay anew: it may have been charged, or be until ${until}.`,
    ...(statusUrl === undefined ? [] : [`Its state: ${statusUrl}`]),
    "The same request with the same header asks what became of it, and is charged once:",
    `curl -i -X POST ${shellQuote(url.href)} ${flags.join(" ")}${dataFlag(options)}`,
  ].join("\n");
}

function dataFlag({ body, bodyFile }: BodyOptions): string {
  if (bodyFile !== undefined) return ` --data-binary ${shellQuote(`@${bodyFile}`)}`;
  return body === undefined ? "" : ` --data-raw ${shellQuote(body)}`;
}

function requireAccepted(answer: Answer): void {
  const { status, json } = answer;
  requireNoFailure(answer);
  if (json["code"] === "payment.in_review")
    throw new PayFailure("unknown", { reason: `in review: ${wordsOf(answer)}` });
  if (status < 200 || status > 299)
    throw new PayFailure("refused", { reason: `refused: ${wordsOf(answer)}` });
}

function typeOf(body: Uint8Array | undefined): string {
  try {
    JSON.parse(new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(body));
    return "application/json";
  } catch {
    return "text/plain";
  }
}
