import { messageOf } from "../../../shared/errors/app-error.ts";
import { EXIT } from "../../../shared/lifecycle/run-service.ts";
import { askForQuote } from "../../../shared/pricing/job-quote.ts";
import { systemClock } from "../../../shared/time/clock.ts";
import { type BodyOptions, readBody } from "../body.ts";
import { type Answer, post, reasonOf, wordsOf } from "../pay/send.ts";
import type { ProgramDeps } from "../program-deps.ts";
import { quoteText } from "./quote-text.ts";

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
