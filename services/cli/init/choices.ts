import { evmAddress } from "../../../shared/config/evm-fields.ts";
import { httpUrl } from "../../../shared/config/fields.ts";
import { didYouMean } from "../../../shared/platform/text/similar-words.ts";
import { PRESETS } from "../../../shared/webhook-auth/presets/presets.ts";
import { ruleText } from "../options.ts";
import type { Terminal } from "../terminal.ts";
import { CHOICES, type InitOptions } from "./init-options.ts";

/* Collects the choices for a new configuration from the command's options, and asks the user for those that no option gives. */

export type Choices = {
  job: number;
  runner: string;
  redisUrl: string;
  /** Undefined if no webhooks are accepted. Without a `preset`, any sender that signs with HMAC-SHA256 is accepted. */
  webhooks: { preset: string | undefined; path: string } | undefined;
  /** Undefined if no job is sold. */
  payments: { price: string; token: InitOptions["network"]; payTo: string | undefined } | undefined;
};

type Read = { value: string } | { problem: string };
type Question = { option: string; text: string; proposed: string; read: (text: string) => Read };

const ACCEPT: Question = {
  option: "--accept <what>",
  text: "Accept webhooks, payments or both?",
  proposed: "webhooks",
  read: (text) => oneOf(text, CHOICES.accept, "must be webhooks, payments or both"),
};

const PRESET: Question = {
  option: "--preset <name>",
  text: "Who sends the webhooks? Enter a preset from docs/senders.md, such as github or stripe, or none",
  proposed: "none",
  read: (text) =>
    oneOf(
      text,
      [...Object.keys(PRESETS), "none"],
      "must be a preset from docs/senders.md, such as github, or none",
    ),
};

const PRICE: Question = {
  option: "--price <amount>",
  text: "What is the price of a call, in USDC?",
  proposed: "0.05",
  read: (text) =>
    /^\d{1,9}(?:\.\d{1,6})?$/.test(text) && /[1-9]/.test(text)
      ? { value: text }
      : { problem: "must be an amount above 0 with at most 6 decimals, such as 0.05" },
};

const RUNNER: Question = {
  option: "--runner <url>",
  text: "What is the URL of your runner?",
  proposed: "http://127.0.0.1:8645",
  read(text) {
    const read = httpUrl.safeParse(text);
    return read.success
      ? { value: read.data }
      : { problem: read.error.issues[0]?.message ?? "must be a URL" };
  },
};

function oneOf(text: string, words: readonly string[], problem: string): Read {
  const found = words.find((word) => word === text.toLowerCase());
  return found === undefined ? { problem: `${problem}${didYouMean(text, words)}` } : { value: found };
}

/**
 * Returns the choices; undefined if the operator quits with Ctrl-C or Ctrl-D. Throws an error for an invalid option.
 */
export async function choose(options: InitOptions, terminal: Terminal): Promise<Choices | undefined> {
  const answer = (given: string | undefined, question: Question) =>
    answerTo(question, given, options.yes ? undefined : terminal);
  const accepted = await answer(options.accept, ACCEPT);
  if (accepted === undefined) return undefined;
  const preset = accepted === "payments" ? "none" : await answer(options.preset, PRESET);
  if (preset === undefined) return undefined;
  const price = accepted === "webhooks" ? "" : await answer(options.price, PRICE);
  if (price === undefined) return undefined;
  const runner = await answer(options.runner, RUNNER);
  if (runner === undefined) return undefined;
  const { jobIndex: job, redisUrl, network: token } = options;
  const { endpoint: path = `/hooks/${preset === "none" ? "inbox" : preset}` } = options;
  return {
    job,
    redisUrl,
    runner,
    webhooks: accepted === "payments" ? undefined : { path, preset: preset === "none" ? undefined : preset },
    payments: accepted === "webhooks" ? undefined : { price, token, payTo: recipientProblem(options) },
  };
}

async function answerTo(
  { option, text, proposed, read }: Question,
  given: string | undefined,
  terminal: Terminal | undefined,
): Promise<string | undefined> {
  if (given !== undefined || terminal === undefined) {
    const taken = read(given ?? proposed);
    if ("problem" in taken) throw optionError(option, given, ruleText(taken.problem, proposed));
    return taken.value;
  }
  for (let why = ""; ; ) {
    const said = await terminal.prompt(`${why}${text} [${proposed}] `);
    if (said === undefined) return undefined;
    const taken = read(said === "" ? proposed : said);
    if ("value" in taken) return taken.value;
    why = `${JSON.stringify(said)} ${taken.problem}\n`;
  }
}

function recipientProblem({ network, payTo }: InitOptions): string | undefined {
  if (network === "devnet") return undefined;
  if (payTo === undefined)
    throw new Error(`--network ${network} requires --pay-to, the address that receives the payments`);
  const read = evmAddress.safeParse(payTo);
  if (read.success) return read.data;
  const rule = read.error.issues[0]?.message ?? "must be an address";
  throw optionError("--pay-to <address>", payTo, ruleText(rule, "0x7099…"));
}

/** Makes an error that reads like commander's errors about invalid option values. */
function optionError(option: string, given: string | undefined, rule: string): Error {
  return new Error(`option '${option}' value '${given}' is invalid: ${rule}`);
}
