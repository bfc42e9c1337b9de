import { beforeDeadline } from "../../shared/dev/wait.ts";
import { messageOf } from "../../shared/errors/app-error.ts";
import { EXIT, Shutdown, stopSignal } from "../../shared/lifecycle/run-service.ts";
import { silentLogger } from "../../shared/log/logger.ts";
import type { Demo } from "./demo.ts";
import { fiveAtOnce, lostReply, unfitBody } from "./more-payments.ts";
import { calledBack, realSenders, recordedRequest, refusedCall } from "./more-webhooks.ts";
import { killedGateway, paidJob } from "./payments.ts";
import type { Shop } from "./shop.ts";
import { createShow, type Show } from "./show.ts";
import { startDemo } from "./start.ts";
import { sum } from "./sum.ts";
import { firstWebhook, killedProducer, runnerOutage, wrongSignature } from "./webhooks.ts";

type Chapter = {
  title: string;
  /** Shown with --all alone. */
  more?: true;
} & (
  | { show: (demo: Demo) => Promise<void> }
  /** A job is bought, or is not. Left out if there is no chain. */
  | { buy: (demo: Demo, shop: Shop) => Promise<void> }
);

/** In the order in which they are shown. Each shows and checks something; if it cannot go on it rejects, and the next ones are left out. */
const CHAPTERS: readonly Chapter[] = [
  {
    title: "A first webhook is on disk with its 202, and runs once although it is sent twice",
    show: firstWebhook,
  },
  { title: "A wrong signature is refused", show: wrongSignature },
  { title: "Senders get in with the signatures that they really make", more: true, show: realSenders },
  {
    title: "A recorded request is no second call, and is refused once it is old",
    more: true,
    show: recordedRequest,
  },
  { title: "A long job calls back when it has ended", more: true, show: calledBack },
  { title: "The runner is down; calls wait, and run once it is up again", show: runnerOutage },
  {
    title: "A call that the runner refuses is kept, and an operator runs it again",
    more: true,
    show: refusedCall,
  },
  { title: "The producer is killed; nothing is lost, and nothing runs twice", show: killedProducer },
  { title: "A job is bought, and its result comes back", buy: paidJob },
  {
    title: "One payment, sent five times at once by a client of version 1, is one charge and one job",
    more: true,
    buy: fiveAtOnce,
  },
  {
    title: "The facilitator's answer is lost; the chain says that the buyer has paid",
    more: true,
    buy: lostReply,
  },
  {
    title: "A payment for a body that the job does not take is refused, and not charged",
    more: true,
    buy: unfitBody,
  },
  {
    title: "The gateway is killed in mid-payment; the job that was paid for runs all the same",
    buy: killedGateway,
  },
];
/** It looks back at all that was shown, however far that came. */
const LAST: Chapter = { title: "The sum", show: sum };

const titles = (chapters: readonly Chapter[]) => chapters.map(({ title }) => `    ${title}`).join("\n");

const USAGE = `usage: npm run demo [-- [--all] [--exit]]

Starts what "postern dev" starts, on this machine, and shows what it does. Each statement is checked before it is printed.
${titles([...CHAPTERS.filter(({ more }) => !more), LAST])}

  --all   shows this too:
${titles(CHAPTERS.filter(({ more }) => more))}
  --exit  ends everything after the show, with exit code 0 if all that was shown is so, else 1`;

const CHAPTER_DEADLINE_MS = 180_000;

const { argv, env } = process;
const options = argv.slice(2);
const unknown = options.filter((option) => !["--all", "--exit", "--help", "-h"].includes(option));
const [all, stays] = [options.includes("--all"), !options.includes("--exit")];

if (unknown.length > 0) {
  console.error(`unknown: ${unknown.join(" ")}\n${USAGE}`);
  process.exitCode = EXIT.usage;
} else if (options.includes("--help") || options.includes("-h")) console.log(USAGE);
else process.exit(await runDemo());

/** Shows everything, stays up unless it is to exit, and ends everything; a signal ends it early. */
async function runDemo(): Promise<number> {
  // The reader of the output has left, and the rest would not be seen.
  process.stdout.once("error", () => process.kill(process.pid, "SIGTERM")).on("error", () => {});
  const stopped = stopSignal();
  const shutdown = new Shutdown();
  const colour = process.stdout.isTTY === true && env["NO_COLOR"] === undefined;
  const show = createShow(console.log, colour, process.stdout.columns || 120);

  let isWhole = false;
  const shown = (async () => {
    show.print('Starting what "postern dev" starts ...');
    const demo = await startDemo(env, show, shutdown);
    if (demo.shop === undefined) leaveOutPayments(show);
    await showChapters(demo);
    isWhole = true;
    showEnd(demo);
  })();
  await Promise.race([stays ? shown.then(() => stopped) : shown, stopped]).catch((error: unknown) => {
    show.fail(messageOf(error));
  });
  show.end();
  const isClean = await shutdown.run(silentLogger);
  return isWhole && isClean && show.shown.wrong === 0 ? EXIT.ok : EXIT.failed;
}

/** With CI set it is a failure that nothing can be bought. */
function leaveOutPayments(show: Show): void {
  const statement = "without a chain nothing is bought: payments are left out";
  if (env["CI"]) show.fail(`${statement}, which with CI set they must not be`);
  else show.say(statement);
}

async function showChapters(demo: Demo): Promise<void> {
  for (const chapter of CHAPTERS) {
    if (chapter.more && !all) continue;
    if (!(await showChapter(demo, chapter))) break;
  }
  await showChapter(demo, LAST);
}

/** Whether the chapter came to its end; some of its statements may be wrong. */
async function showChapter(demo: Demo, chapter: Chapter): Promise<boolean> {
  const { show, shop } = demo;
  if ("buy" in chapter && shop === undefined) return true;
  show.chapter(chapter.title);
  try {
    const work = "buy" in chapter ? shop && chapter.buy(demo, shop) : chapter.show(demo);
    await beforeDeadline("the end of this chapter", Promise.resolve(work), CHAPTER_DEADLINE_MS);
    return true;
  } catch (error) {
    for (const line of messageOf(error).split("\n", 1)) show.fail(line);
    return false;
  }
}

/** Prints what was shown, where to look at it, and what to try next. */
function showEnd({ show, stack }: Demo): void {
  const { chapters, checks, wrong } = show.shown;
  const verdict = wrong === 0 ? "all of it is so" : `${wrong} of it is wrong (NO)`;
  const operator = `http://${stack.parts.operator.address}`;
  show.print(
    "",
    `Shown:    ${chapters} chapters, ${checks} checks; ${verdict}`,
    `Console:  ${stays ? `${operator} shows what flowed; Ctrl-C ends everything` : "ends with the demo; without --exit it stays, and its address is here"}`,
    `Next:     ${all ? "npm run postern -- dev   starts the same for webhooks and payments of your own" : "npm run demo -- --all   shows the rest"}`,
  );
}
