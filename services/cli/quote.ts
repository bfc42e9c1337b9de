import { z } from "zod";
import { messageOf } from "../../shared/errors/app-error.ts";
import { EXIT } from "../../shared/lifecycle/run-service.ts";
import { askForQuote } from "../../shared/pricing/ask-for-quote.ts";
import { systemClock } from "../../shared/time/clock.ts";
import { type BodyOptions, readBody } from "./options.ts";
import { type Answer, post, reasonOf, wordsOf } from "./pay/send.ts";
import type { ProgramDeps } from "./program-deps.ts";
import { plain, toIso } from "./text.ts";

export type QuoteOptions = BodyOptions & {
  requester: string;
  difficulty: number;
  json?: boolean;
};

export type Asked = { url: URL; serviceId: number; jobIndex: number };

const ANSWER_WITHIN_MS = 10_000;

/** `postern quote`: one quote. 0 once it is there. */
export async function quote(deps: ProgramDeps, asked: Asked, options: QuoteOptions): Promise<number> {
  try {
    const answer = await ask(deps, asked, options);
    if (answer.status !== 200) throw new Error(`refused: ${wordsOf(answer)}`);
    deps.print(options.json ? `${JSON.stringify(answer.json)}\n` : quoteText(answer.json));
    return EXIT.ok;
  } catch (error) {
    deps.printError(`${messageOf(error)}\n`);
    return EXIT.failed;
  }
}

async function ask(deps: ProgramDeps, { url, ...job }: Asked, options: QuoteOptions): Promise<Answer> {
  const inputs = readBody(options) ?? new Uint8Array();
  const { requester, difficulty } = options;
  const { path, body } = askForQuote(
    { ...job, requester, inputs, difficulty },
    {
      clock: systemClock,
      onStale: (secs) => deps.printError(`no proof of work after ${secs} s; again with a new timestamp\n`),
    },
  );
  const base = url.href.replace(/\/$/, "");
  const request = {
    url: new URL(`${base}${path}`),
    headers: { "Content-Type": "application/json" },
    body: Buffer.from(body),
  };
  return post(request, systemClock() + ANSWER_WITHIN_MS).catch((cause: unknown) => {
    throw new Error(`${url.host} cannot be asked: ${reasonOf(cause)}`, { cause });
  });
}

const option = z.object({
  network: z.string(),
  asset: z.string(),
  symbol: z.string(),
  amount: z.string(),
  pay_to: z.string(),
});

/** What of an engine's answer is shown. */
const answered = z.object({
  quote_details: z.object({
    price: z.string(),
    expiry: z.string().regex(/^\d{1,12}$/),
    inputs_hash: z.string(),
  }),
  operator_id: z.string(),
  settlement_options: z.array(option).default([]),
  x402_endpoint: z.string().optional(),
  quote_header: z.string(),
});

/** A quote for people, with the header that an x402 gateway takes. Throws where the answer is no quote. */
export function quoteText(json: unknown): string {
  const parsed = answered.safeParse(json);
  if (!parsed.success) throw new Error(`the answer is no quote: ${parsed.error.issues[0]?.path.join(".")}`);
  const { quote_details, operator_id, settlement_options, x402_endpoint, quote_header } = parsed.data;
  const { price, expiry, inputs_hash } = quote_details;
  const lines = [
    `price: ${price} wei, until ${toIso(Number(expiry) * 1000)}`,
    `inputs: ${inputs_hash}`,
    `signed by: ${operator_id}`,
    ...settlement_options.map(
      ({ network, asset, symbol, amount, pay_to }) =>
        `or: ${amount} units of ${symbol} (${asset}) on ${network}, to ${pay_to}`,
    ),
    ...(x402_endpoint === undefined ? [] : [`at: ${x402_endpoint}`]),
    `X-PLATFORM-QUOTE: ${quote_header}`,
  ];
  return lines.map((line) => `${plain(line)}\n`).join("");
}
