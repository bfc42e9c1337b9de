import { messageOf } from "../../../shared/errors/app-error.ts";
import { EXIT } from "../../../shared/lifecycle/run-service.ts";
import { shellQuote } from "../../../shared/text/shell-quote.ts";
import { systemClock } from "../../../shared/time/clock.ts";
import { type BodyOptions, readBody } from "../options.ts";
import type { ProgramDeps } from "../program-deps.ts";
import { plain, toIso } from "../text.ts";
import type { Price } from "./payer.ts";
import { createPayer, type Payer, payerKey, type SignedPayment } from "./payer.ts";
import { PayFailure, type Purchase, receiptText, toJson, toReceipt } from "./purchase.ts";
import {
  type Answer,
  follow,
  interruptible,
  post,
  reasonOf,
  sendUntilAnswered,
  textIn,
  toFollowed,
  wordsOf,
} from "./send.ts";

export type PayOptions = BodyOptions & {
  contentType?: string;
  max: string;
  token?: Record<string, number>;
  quote?: string;
  follow: boolean;
  timeout: number;
  json?: boolean;
};

/** `postern pay`: one purchase. 0 once the runner has the job, or with --no-follow once it is accepted. */
export async function pay(deps: ProgramDeps, url: URL, options: PayOptions): Promise<number> {
  const key = payerKey(deps.env);
  if (key === undefined) {
    deps.printError("POSTERN_PAYER_KEY must be the payer's private key: 0x and 64 hex digits\n");
    return EXIT.config;
  }
  const purchase: Purchase = { url: url.href };
  const say = (text: string) => (options.json ? undefined : deps.print(text));
  try {
    const buying = { url, options, purchase, say, deadline: systemClock() + options.timeout * 1000 };
    await buy(createPayer(key), buying);
    purchase.outcome = await followUp(buying);
  } catch (error) {
    purchase.outcome = error instanceof PayFailure ? error.outcome : "failed";
    purchase.error = messageOf(error);
    deps.printError(`${purchase.error}\n`);
  }
  if (options.json) deps.print(`${JSON.stringify(toJson(purchase))}\n`);
  return purchase.outcome === "injected" || purchase.outcome === "accepted" ? EXIT.ok : EXIT.failed;
}

type Buying = {
  url: URL;
  options: PayOptions;
  purchase: Purchase;
  say: (text: string) => void;
  deadline: number;
};

/** From the price to the receipt. */
async function buy(payer: Payer, buying: Buying): Promise<void> {
  const { url, options, purchase, say, deadline } = buying;
  const body = readBody(options);
  const required = payer.readRequired((await ask(buying)).headers);
  const price = payer.choose(required, { max: options.max, tokens: options.token ?? {} });
  Object.assign(purchase, { payer: payer.address, price: price.text, offer: price.offer });
  say(`price: ${price.text} on ${plain(price.offer.network)}, to ${plain(price.offer.payTo)}\n`);

  const signed = await payer.sign(required, price);
  Object.assign(purchase, { nonce: signed.nonce, validBefore: signed.validBefore });

  const headers = {
    ...signed.headers,
    ...quoteHeader(options),
    "Content-Type": options.contentType ?? typeOf(body),
  };
  const request = { url, headers, body };
  const answer = await interruptible((signal) => {
    say(signedText(payer, price, signed));
    return sendUntilAnswered(request, { deadline, signal, say });
  }).catch((error: unknown) => {
    throw error instanceof PayFailure ? unanswered(error, buying, { signed, headers }) : error;
  });
  takeAnswer(payer, answer, buying);
}

/** The price does not depend on the body, so it is not sent twice. */
async function ask({ url, options, deadline }: Buying): Promise<Answer> {
  const request = { url, headers: quoteHeader(options), body: undefined };
  const answer = await post(request, deadline).catch((cause: unknown) => {
    throw new PayFailure(`${url.host} cannot be asked for the price: ${reasonOf(cause)}`, {
      outcome: "failed",
      cause,
    });
  });
  if (answer.status === 402) return answer;
  throw new PayFailure(`${url.href} asks for no payment, it answers ${wordsOf(answer)}; nothing was signed`, {
    outcome: "refused",
  });
}

function quoteHeader({ quote }: PayOptions): Record<string, string> {
  return quote === undefined ? {} : { "X-PLATFORM-QUOTE": quote };
}

function signedText(
  { address }: Payer,
  { text, offer }: Price,
  { nonce, validBefore }: SignedPayment,
): string {
  const until = toIso(validBefore * 1000);
  return `signed: ${text} from ${address} to ${plain(offer.payTo)}, valid until ${until}, nonce ${nonce}\n`;
}

/** Nobody may take this for "not paid": what it takes to ask again is handed over. */
function unanswered(
  why: PayFailure,
  { url, options, purchase }: Buying,
  { signed, headers }: { signed: SignedPayment; headers: Record<string, string> },
): PayFailure {
  purchase.paymentHeaders = signed.headers;
  purchase.statusUrl = why.statusUrl;
  const flags = Object.entries(headers).map(([name, value]) => `-H ${shellQuote(`${name}: ${value}`)}`);
  const text = [
    `whether the payment settled is unknown (${why.message}). Do not pay anew: it may have been charged, or be until ${toIso(signed.validBefore * 1000)}.`,
    ...(why.statusUrl === undefined ? [] : [`Its state: ${why.statusUrl}`]),
    "The same request with the same header asks what became of it, and is charged once:",
    `curl -i -X POST ${shellQuote(url.href)} ${flags.join(" ")}${dataFlag(options)}`,
  ];
  return new PayFailure(text.join("\n"), { outcome: "unknown", cause: why });
}

function dataFlag({ body, bodyFile }: PayOptions): string {
  if (bodyFile !== undefined) return ` --data-binary ${shellQuote(`@${bodyFile}`)}`;
  return body === undefined ? "" : ` --data-raw ${shellQuote(body)}`;
}

function takeAnswer(payer: Payer, answer: Answer, { purchase, say }: Buying): void {
  const { status, json } = answer;
  purchase.status = status;
  purchase.statusUrl = textIn(answer, "status_url");
  if (json["code"] === "payment.in_review")
    throw new PayFailure(`in review: ${wordsOf(answer)}`, { outcome: "unknown" });
  if (status < 200 || status > 299)
    throw new PayFailure(`refused: ${wordsOf(answer)}`, { outcome: "refused" });
  purchase.callId = textIn(answer, "call_id");
  purchase.transaction = textIn(answer, "transaction");
  say(`accepted: call ${purchase.callId ?? "?"}, transaction ${purchase.transaction ?? "?"}\n`);
  purchase.receipt = toReceipt(json["receipt"], payer.readResponse(answer.headers));
  say(receiptText(purchase.receipt));
}

async function followUp({ url, options, purchase, say, deadline }: Buying): Promise<string> {
  const { statusUrl } = purchase;
  const followed = statusUrl === undefined ? undefined : toFollowed(statusUrl, url);
  if (!options.follow || followed === undefined) return "accepted";
  if (followed.href !== statusUrl)
    say(`followed at ${followed.href}, not at ${statusUrl}: only ${url.host} was paid\n`);
  purchase.followedUrl = followed.href;
  const state = await follow(followed, { deadline, onState: (told) => say(`state: ${plain(told)}\n`) });
  purchase.state = state;
  if (state === "injected") return state;
  const ended = `the job is paid for, and it is ${state === undefined ? "in no state that could be read" : plain(state)}`;
  throw new PayFailure(`${ended}; ${followed.href} tells more later`, { outcome: "failed" });
}

function typeOf(body: Uint8Array | undefined): string {
  try {
    JSON.parse(Buffer.from(body ?? []).toString("utf8"));
    return "application/json";
  } catch {
    return "text/plain";
  }
}
