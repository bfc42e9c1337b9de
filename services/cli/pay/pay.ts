import { AppError, messageOf } from "../../../shared/errors/app-error.ts";
import { NO_PRIVATE_KEY } from "../../../shared/ethereum/signatures.ts";
import { missingPackages } from "../../../shared/lifecycle/optional-packages.ts";
import { EXIT } from "../../../shared/lifecycle/run-service.ts";
import { shellQuote } from "../../../shared/text/shell-quote.ts";
import { systemClock } from "../../../shared/time/clock.ts";
import { toIso } from "../../../shared/time/iso.ts";
import { type Answer, post, reasonOf, textIn, wordsOf } from "../http.ts";
import { type BodyOptions, readBody } from "../options.ts";
import type { ProgramDeps } from "../program-deps.ts";
import { jsonLine, plain } from "../text.ts";
import { findJob } from "./find-job.ts";
import type { Payer } from "./payer.ts";
import { payerKey } from "./payer-key.ts";
import { PayFailure, type Purchase, receiptText, toJson, toReceipt } from "./purchase.ts";
import { requireFits } from "./require-fits.ts";
import { follow, interruptible, sendUntilAnswered, toFollowed } from "./send.ts";

export type PayOptions = BodyOptions & {
  /** Where the job is sold, if its name is given. */
  gateway?: URL;
  contentType?: string;
  max: string;
  token?: Record<string, number>;
  quote?: string;
  follow: boolean;
  timeout: number;
  json?: boolean;
};

type Say = (text: string) => void;

/** What `payer.ts` imports. */
const PACKAGES = ["@x402/evm", "@x402/extensions", "@x402/fetch", "viem"];

/** `postern pay`: buys one job, by its URL or its name. 0 once the runner has the job, or with --no-follow once it is accepted. */
export async function pay(deps: ProgramDeps, job: URL | string, options: PayOptions): Promise<number> {
  const key = payerKey(deps.env);
  if (key === undefined) {
    deps.printError(new AppError("start.config_invalid", { reason: `POSTERN_PAYER_KEY ${NO_PRIVATE_KEY}` }));
    return EXIT.config;
  }
  const missing = missingPackages("pay", PACKAGES);
  if (missing !== undefined) {
    deps.printError(`${missing.message}\n`);
    return EXIT.config;
  }
  const purchase: Purchase = {};
  const { say } = deps;
  try {
    const { createPayer } = await import("./payer.ts");
    const deadline = systemClock() + options.timeout * 1000;
    const url = await urlOf(job, options, deadline, say);
    purchase.url = url.href;
    purchase.outcome = await buy({ payer: createPayer(key), url, deadline }, options, purchase, say);
  } catch (error) {
    purchase.outcome = error instanceof PayFailure ? error.outcome : "failed";
    purchase.error = messageOf(error);
    deps.printError(`${purchase.error}\n`);
  }
  if (options.json) deps.print(jsonLine(toJson(purchase)));
  return purchase.outcome === "injected" || purchase.outcome === "accepted" ? EXIT.ok : EXIT.failed;
}

async function urlOf(job: URL | string, { gateway }: PayOptions, deadline: number, say: Say): Promise<URL> {
  if (typeof job !== "string" || gateway === undefined) return new URL(job);
  const url = await findJob(gateway, job, deadline);
  say(`job: ${job} is ${url.href}\n`);
  return url;
}

/** From the price to the call's end. Writes each thing it learns into `purchase`, and resolves with the outcome. */
async function buy(
  { payer, url, deadline }: { payer: Payer; url: URL; deadline: number },
  options: PayOptions,
  purchase: Purchase,
  say: Say,
): Promise<"accepted" | "injected"> {
  const body = readBody(options);
  const quote: Record<string, string> =
    options.quote === undefined ? {} : { "X-PLATFORM-QUOTE": options.quote };

  const required = payer.readRequired((await askPrice(url, quote, deadline)).headers);
  const price = payer.choose(required, { max: options.max, tokens: options.token ?? {} });
  const { offer } = price;
  Object.assign(purchase, { payer: payer.address, price: price.text, offer });
  say(`price: ${price.text} on ${plain(offer.network)}, to ${plain(offer.payTo)}\n`);

  await requireFits(url, body, deadline);
  const signed = await payer.sign(required, price);
  const { nonce, validBefore } = signed;
  Object.assign(purchase, { nonce, validBefore });
  const until = toIso(validBefore * 1000);
  const headers = {
    ...signed.headers,
    ...quote,
    "Content-Type": options.contentType ?? typeOf(body),
  };
  const answer = await interruptible((signal) => {
    say(
      `signed: ${price.text} from ${payer.address} to ${plain(offer.payTo)}, valid until ${until}, nonce ${nonce}\n`,
    );
    return sendUntilAnswered({ url, headers, body }, deadline, signal, say);
  }).catch((error: unknown) => {
    if (!(error instanceof PayFailure)) throw error;
    purchase.paymentHeaders = signed.headers;
    purchase.statusUrl = error.statusUrl;
    const reason = howToAskAgain(error, until, url, headers, options);
    throw new PayFailure("unknown", { reason, cause: error });
  });

  purchase.status = answer.status;
  purchase.statusUrl = textIn(answer, "status_url");
  requireAccepted(answer);
  purchase.callId = textIn(answer, "call_id");
  purchase.transaction = textIn(answer, "transaction");
  say(`accepted: call ${purchase.callId ?? "?"}, transaction ${purchase.transaction ?? "?"}\n`);
  purchase.receipt = toReceipt(answer.json["receipt"], payer.readResponse(answer.headers));
  say(receiptText(purchase.receipt));
  return options.follow ? followCall(url, purchase, deadline, say) : "accepted";
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
  if (json["code"] === "payment.in_review")
    throw new PayFailure("unknown", { reason: `in review: ${wordsOf(answer)}` });
  if (status < 200 || status > 299)
    throw new PayFailure("refused", { reason: `refused: ${wordsOf(answer)}` });
}

async function followCall(
  url: URL,
  purchase: Purchase,
  deadline: number,
  say: Say,
): Promise<"accepted" | "injected"> {
  const { statusUrl } = purchase;
  const followed = statusUrl === undefined ? undefined : toFollowed(statusUrl, url);
  if (followed === undefined) return "accepted";
  if (followed.href !== statusUrl)
    say(`followed at ${followed.href}, not at ${statusUrl}: only ${url.host} was paid\n`);
  purchase.followedUrl = followed.href;
  const state = await follow(followed, deadline, (told) => say(`state: ${plain(told)}\n`));
  purchase.state = state;
  if (state === "injected") return state;
  const end = state === undefined ? "its state could not be read" : `its state is ${plain(state)}`;
  const reason = `the job is paid for, and ${end}; ${followed.href} tells more later`;
  throw new PayFailure("failed", { reason });
}

function typeOf(body: Uint8Array | undefined): string {
  try {
    JSON.parse(Buffer.from(body ?? []).toString("utf8"));
    return "application/json";
  } catch {
    return "text/plain";
  }
}
