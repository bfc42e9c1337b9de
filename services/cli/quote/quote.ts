import { z } from "zod";
import { messageOf } from "../../../shared/platform/errors/app-error.ts";
import { EXIT } from "../../../shared/platform/lifecycle/run-service.ts";
import { systemClock } from "../../../shared/platform/time/clock.ts";
import { toIso } from "../../../shared/platform/time/iso.ts";
import { KNOWN_TOKENS } from "../../../shared/pricing/client-limits.ts";
import { askForQuote } from "../../../shared/pricing/job-quote.ts";
import { readBody } from "../body.ts";
import { post, reasonOf, wordsOf } from "../http.ts";
import type { BodyOptions } from "../options.ts";
import { amountOf } from "../payments/list.ts";
import type { ProgramDeps } from "../program-deps.ts";
import { jsonLine, plain } from "../text.ts";

export type QuoteOptions = BodyOptions & {
  requester: string;
  difficulty: number;
  json?: boolean;
};

const ANSWER_WITHIN_MS = 10_000;

/** `postern quote`: requests one signed quote from a pricing engine and prints it. Exit code 1 if the engine returns none. */
export async function showQuote(
  { print, note, printError }: ProgramDeps,
  url: URL,
  job: { serviceId: number; jobIndex: number },
  options: QuoteOptions,
): Promise<number> {
  const onStale = (secs: number) =>
    note(`no proof of work found after ${secs} s; trying again with a new timestamp\n`);
  try {
    const { requester, difficulty, json } = options;
    const inputs = readBody(options) ?? new Uint8Array();
    const { path, body } = askForQuote(
      { ...job, requester, inputs, difficulty },
      { clock: systemClock, onStale },
    );
    const request = {
      url: new URL(`${url.href.replace(/\/$/, "")}${path}`),
      headers: { "Content-Type": "application/json" },
      body: Buffer.from(body),
    };
    const answer = await post(request, systemClock() + ANSWER_WITHIN_MS).catch((cause: unknown) => {
      throw new Error(`cannot get a quote from ${url.host}: ${reasonOf(cause)}`, { cause });
    });
    if (answer.status !== 200) throw new Error(`refused: ${wordsOf(answer)}`);
    print(json ? jsonLine(answer.json) : quoteText(answer.json));
    return EXIT.ok;
  } catch (error) {
    printError(`${messageOf(error)}\n`);
    return EXIT.failed;
  }
}

/** The part of the engine's answer that this command prints. */
const Quoted = z.object({
  quote_details: z.object({
    price: z.string(),
    expiry: z.string().regex(/^\d{1,12}$/),
    inputs_hash: z.string(),
  }),
  operator_id: z.string(),
  settlement_options: z
    .array(
      z.object({
        network: z.string(),
        asset: z.string(),
        symbol: z.string(),
        amount: z.string().regex(/^\d{1,78}$/),
        pay_to: z.string(),
      }),
    )
    .default([]),
  x402_endpoint: z.string().optional(),
  quote_header: z.string(),
});

/** Formats a quote for people, with the header that a payment gateway accepts. Throws if the answer is not a quote. */
function quoteText(json: unknown): string {
  const parsed = Quoted.safeParse(json);
  if (!parsed.success)
    throw new Error(
      `the answer is not a quote: ${parsed.error.issues[0]?.path.join(".")} is missing or wrong`,
    );
  const { quote_details, operator_id, settlement_options, x402_endpoint, quote_header } = parsed.data;
  const { price, expiry, inputs_hash } = quote_details;
  const lines = [
    `price: ${price} wei, until ${toIso(Number(expiry) * 1000)}`,
    `inputs hash: ${inputs_hash}`,
    `signed by: ${operator_id}`,
    ...settlement_options.map(
      ({ network, asset, symbol, amount, pay_to }) =>
        `or: ${amountOf({ amount, symbol }, KNOWN_TOKENS[`${network}/${asset.toLowerCase()}`])} (${asset}) on ${network}, to ${pay_to}`,
    ),
    ...(x402_endpoint === undefined ? [] : [`pay at: ${x402_endpoint}`]),
    `X-PLATFORM-QUOTE: ${quote_header}`,
  ];
  return lines.map((line) => `${plain(line)}\n`).join("");
}
