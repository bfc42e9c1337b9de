import type { Secret } from "../../../shared/platform/crypto/secret.ts";
import { AppError, messageOf } from "../../../shared/platform/errors/app-error.ts";
import { programName } from "../../../shared/platform/lifecycle/environment.ts";
import { missingPackages } from "../../../shared/platform/lifecycle/optional-packages.ts";
import { EXIT } from "../../../shared/platform/lifecycle/run-service.ts";
import { shellQuote } from "../../../shared/platform/text/shell-quote.ts";
import { systemClock } from "../../../shared/platform/time/clock.ts";
import { toIso } from "../../../shared/platform/time/iso.ts";
import { isJson, readBody } from "../body.ts";
import { type Answer, isSuccess, post, reasonOf, textIn, wordsOf } from "../http.ts";
import { type BodyOptions, isResultToken } from "../options.ts";
import { payerKey, whyNoKey } from "../payer-key.ts";
import type { ProgramDeps } from "../program-deps.ts";
import {
  CALL_FAILED,
  type Credentials,
  fetchResult,
  type JobResult,
  NoResult,
  toResult,
} from "../result/fetch.ts";
import { printResult, resultJson } from "../result/print.ts";
import type { Terminal } from "../terminal.ts";
import { jsonLine, plain } from "../text.ts";
import { findJob } from "./find-job.ts";
import { followCall, onPaidOrigin } from "./follow.ts";
import type { Payer } from "./payer.ts";
import { PayFailure, type Purchase, receiptText, toJson, toReceipt } from "./purchase.ts";
import { requireMatchingBody } from "./require-matching-body.ts";
import { interruptible, type ReportStep, sendUntilAnswered } from "./send.ts";

export type PayOptions = BodyOptions & {
  /** The gateway that sells the job, if the job is given by name. */
  gateway?: URL;
  contentType?: string;
  max: string;
  token?: Record<string, number>;
  quote?: string;
  /** Time limit of the purchase, in seconds. */
  timeout: number;
  /** Maximum time to wait for the output after the purchase, in seconds. */
  wait: number;
  json?: boolean;
  quiet?: boolean;
};

/** The optional packages that `payer.ts` imports. */
const PACKAGES = ["@x402/evm", "@x402/extensions", "@x402/fetch", "viem"];

/**
 * `postern pay`: buys one call of a job, which the user names by its URL or its name. Resolves with 0 once the output
 * is printed. Also resolves with 0 if the job has ended but keeps no output, and with --wait 0 once the call is
 * accepted.
 */
export async function pay(deps: ProgramDeps, job: URL | string, options: PayOptions): Promise<number> {
  const key = payerKey(deps.env);
  if (key === undefined) {
    deps.printError(new AppError("start.config_invalid", { reason: whyNoKey(deps.env) }));
    return EXIT.config;
  }
  const missing = missingPackages("postern pay", PACKAGES);
  if (missing !== undefined) {
    deps.printError(`${missing.message}\n`);
    return EXIT.config;
  }
  const purchase: Purchase = {};
  const { json = false, quiet = false } = options;
  const report: ReportStep = (step, fields, text) => {
    if (json && !quiet) deps.print(jsonLine({ step, ...fields }));
    else deps.say(text);
  };
  const program = programName(deps.env);
  let result: JobResult | undefined;
  try {
    const { createPayer } = await import("./payer.ts");
    const deadline = systemClock() + options.timeout * 1000;
    const url = await urlOf(job, options, deadline, report);
    purchase.url = url.href;
    const screen = deps.terminal.drawsProgress && !json && !quiet ? deps.terminal : undefined;
    const { printError } = deps;
    result = await buy(
      { payer: createPayer(key), key, url, deadline, screen, program, printError },
      options,
      purchase,
      report,
    );
    if (!json && result !== undefined) printResult(deps, result, quiet);
  } catch (error) {
    if (error instanceof PayFailure) purchase.outcome = error.outcome;
    purchase.outcome ??= "failed";
    purchase.error = messageOf(error);
    deps.printError(`${purchase.error}\n`);
  }
  const isPrinted = result !== undefined && purchase.error === undefined;
  if (quiet && !json && !isPrinted) deps.printError(howToFetch(purchase, program));
  if (json) deps.print(jsonLine({ ...toJson(purchase), ...(result && { result: resultJson(result) }) }));
  return purchase.error === undefined ? EXIT.ok : EXIT.failed;
}

async function urlOf(
  job: URL | string,
  { gateway }: PayOptions,
  deadline: number,
  report: ReportStep,
): Promise<URL> {
  if (typeof job !== "string" || gateway === undefined) return new URL(job);
  const url = await findJob(gateway, job, deadline);
  report("job", { name: job, url: url.href }, `job: ${job} is ${url.href}\n`);
  return url;
}

type Trade = {
  payer: Payer;
  key: Secret;
  url: URL;
  deadline: number;
  /** The terminal on which the job's progress is drawn. */
  screen: Terminal | undefined;
  /** Name under which the user runs this program, for printed commands. */
  program: string;
  printError: ProgramDeps["printError"];
};

/**
 * Requests the price, pays, and waits for the job's output unless --wait is 0. Writes the data of each step into
 * `purchase`, so that a failure can report the steps before it.
 */
async function buy(
  trade: Trade,
  options: PayOptions,
  purchase: Purchase,
  report: ReportStep,
): Promise<JobResult | undefined> {
  const { payer, url, deadline } = trade;
  const body = readBody(options);
  const quote: Record<string, string> =
    options.quote === undefined ? {} : { "X-PLATFORM-QUOTE": options.quote };

  const required = payer.readRequired((await requestPrice(url, quote, deadline)).headers);
  const price = payer.choose(required, { max: options.max, tokens: options.token ?? {} });
  const { offer } = price;
  Object.assign(purchase, { payer: payer.address, price: price.text, offer });
  const { network, payTo: pay_to } = offer;
  const cost = { price: price.text, network, pay_to };
  report("price", cost, `price: ${price.text} on ${plain(network)}, to ${plain(pay_to)}\n`);

  await requireMatchingBody(url, body, deadline);
  const signed = await payer.sign(required, price);
  const { nonce, validBefore } = signed;
  Object.assign(purchase, { nonce, validBefore });
  const until = toIso(validBefore * 1000);
  const headers = {
    ...signed.headers,
    ...quote,
    "Content-Type": options.contentType ?? (isJson(body) ? "application/json" : "text/plain"),
  };
  const answer = await interruptible((signal) => {
    report(
      "signed",
      { ...cost, payer: payer.address, valid_before: until, nonce },
      `signed: ${price.text} from ${payer.address} to ${plain(pay_to)}, valid until ${until}, nonce ${nonce}\n`,
    );
    return sendUntilAnswered({ url, headers, body }, deadline, signal, report);
  }).catch((error: unknown) => {
    if (!(error instanceof PayFailure)) throw error;
    purchase.paymentHeaders = signed.headers;
    purchase.statusUrl = error.statusUrl;
    const reason = explainRepeat(error, until, url, headers, options);
    throw new PayFailure("unknown", { reason, cause: error });
  });

  const paid = payer.readResponse(answer.headers);
  recordAnswer(answer, paid, url, purchase);
  requireAccepted(answer);
  purchase.outcome = isOutput(answer) ? "injected" : "accepted";
  const { callId, transaction, resultUrl: result_url, resultToken: result_token } = purchase;
  report(
    "accepted",
    { call_id: callId, transaction, result_url, result_token },
    `accepted: call ${callId ?? "?"}, transaction ${transaction ?? "?"}\n${howToFetch(purchase, trade.program)}`,
  );
  report("receipt", { receipt: purchase.receipt }, receiptText(purchase.receipt ?? {}, purchase));
  if (isOutput(answer)) return toResult(answer);
  if (options.wait === 0) return undefined;
  const waiting = () => awaitOutput(answer, trade, options, purchase, report);
  return options.quiet ? withHintOnInterrupt(trade, howToFetch(purchase, trade.program), waiting) : waiting();
}

/**
 * Waits for the output. If the user presses Ctrl-C during the wait, prints the command that fetches the output later.
 * Then ends the process by the same signal. Used with --quiet, because the hint was not printed before the wait.
 */
async function withHintOnInterrupt<Result>(
  { printError }: Trade,
  how: string,
  wait: () => Promise<Result>,
): Promise<Result> {
  const onSignal = (signal: NodeJS.Signals) => {
    printError(how);
    process.kill(process.pid, signal);
  };
  process.once("SIGINT", onSignal);
  return wait().finally(() => process.off("SIGINT", onSignal));
}

/**
 * Whether the answer to the paid request is already the job's output. Postern's gateway queues the call and answers 202
 * with its id. Other sellers may run the job at once and answer with its output.
 */
function isOutput(answer: Answer): boolean {
  return isSuccess(answer) && (answer.status !== 202 || textIn(answer, "call_id") === undefined);
}

/** Copies the answer's data about the purchase into `purchase`. */
function recordAnswer(answer: Answer, paid: object | undefined, url: URL, purchase: Purchase): void {
  const transaction = (paid as { transaction?: unknown } | undefined)?.transaction;
  purchase.status = answer.status;
  if (isOutput(answer)) {
    purchase.state = "injected";
    purchase.transaction = typeof transaction === "string" ? plain(transaction) : undefined;
    purchase.receipt = toReceipt(undefined, paid);
    return;
  }
  purchase.statusUrl = textIn(answer, "status_url");
  purchase.callId = textIn(answer, "call_id");
  purchase.transaction = textIn(answer, "transaction");
  purchase.receipt = toReceipt(answer.json["receipt"], paid);
  purchase.signedReceipt = answer.json["signed_receipt"];
  const { statusUrl } = purchase;
  const named = textIn(answer, "result_url") ?? (statusUrl && `${statusUrl}/result`);
  purchase.resultUrl = named === undefined ? undefined : onPaidOrigin(named, url)?.href;
  const token = textIn(answer, "result_token");
  if (token !== undefined && isResultToken(token)) purchase.resultToken = token;
}

/** Returns a line with the command that fetches the output later. Empty if there is no output to fetch. */
function howToFetch({ resultUrl, resultToken }: Purchase, program: string): string {
  if (resultUrl === undefined) return "";
  const variable = resultToken === undefined ? "" : `POSTERN_RESULT_TOKEN=${shellQuote(resultToken)} `;
  return `fetch the result later: ${variable}${program} result ${shellQuote(resultUrl)}\n`;
}

/**
 * Watches the call until it ends, and fetches its output. If the payment was sent repeatedly, the 202 answer has no
 * result token. `fetchResult` then signs in with the payer's key to get the output.
 */
async function awaitOutput(
  answer: Answer,
  { url, screen, key: payerKey }: Trade,
  { wait }: PayOptions,
  purchase: Purchase,
  report: ReportStep,
): Promise<JobResult | undefined> {
  const deadline = systemClock() + wait * 1000;
  const { resultUrl, resultToken: token } = purchase;
  await followCall(url, purchase, { token, deadline, report, screen });
  if (resultUrl === undefined) return undefined;
  const keepsNone = token === undefined && !answer.headers.has("idempotent-replayed");
  return keepsNone ? noResult(report) : fetchPaid(new URL(resultUrl), { token, payerKey }, deadline, report);
}

async function fetchPaid(
  url: URL,
  proof: Credentials,
  deadline: number,
  report: ReportStep,
): Promise<JobResult | undefined> {
  try {
    return await fetchResult(url, proof, deadline);
  } catch (error) {
    if (!(error instanceof NoResult)) throw error;
    if (error.code === "result.none_kept") return noResult(report);
    const hasFailed = error.code === CALL_FAILED;
    const what = hasFailed ? "it failed" : "its output could not be fetched";
    throw new PayFailure(hasFailed ? "failed" : "injected", {
      reason: `you have paid, but ${what}: ${error.message}`,
      cause: error,
    });
  }
}

function noResult(report: ReportStep): undefined {
  const reason = "this job keeps no results";
  report("no_result", { reason }, `no result: ${reason}\n`);
}

/**
 * Requests the job without a payment, to get the 402 answer with the price. Sends no body, because the price does not
 * depend on it.
 */
async function requestPrice(url: URL, headers: Record<string, string>, deadline: number): Promise<Answer> {
  const answer = await post({ url, headers, body: undefined }, deadline).catch((cause: unknown) => {
    const reason = `cannot get the price from ${url.host}: ${reasonOf(cause)}`;
    throw new PayFailure("failed", { reason, cause });
  });
  if (answer.status === 402) return answer;
  const reason = `no price from ${url.href}: ${wordsOf(answer).replace(/\.$/, "")}. Nothing was signed`;
  throw new PayFailure("refused", { reason });
}

/**
 * Explains that the outcome of the payment is unknown, and how to send the same payment again. Otherwise a user could
 * believe that nothing was paid, and pay twice.
 */
function explainRepeat(
  { message, statusUrl }: PayFailure,
  until: string,
  url: URL,
  headers: Record<string, string>,
  options: BodyOptions,
): string {
  const flags = Object.entries(headers).map(([name, value]) => `-H ${shellQuote(`${name}: ${value}`)}`);
  return [
    `it is unknown whether the payment settled (${message}). Do not pay again: you may have been charged, or may still be charged until ${until}.`,
    ...(statusUrl === undefined ? [] : [`State of the payment: ${statusUrl}`]),
    "To learn the outcome, send the same request with the same header. It is charged only once:",
    `curl -i -X POST ${shellQuote(url.href)} ${flags.join(" ")}${dataFlag(options)}`,
  ].join("\n");
}

function dataFlag({ body, bodyFile }: BodyOptions): string {
  if (bodyFile !== undefined) return ` --data-binary ${shellQuote(`@${bodyFile}`)}`;
  return body === undefined ? "" : ` --data-raw ${shellQuote(body)}`;
}

function requireAccepted(answer: Answer): void {
  const { json } = answer;
  if (json["code"] === CALL_FAILED)
    throw new PayFailure("failed", { reason: `you have paid, but the job failed: ${wordsOf(answer)}` });
  if (json["code"] === "payment.in_review")
    throw new PayFailure("unknown", { reason: `in review: ${wordsOf(answer)}` });
  if (!isSuccess(answer)) throw new PayFailure("refused", { reason: `refused: ${wordsOf(answer)}` });
}
