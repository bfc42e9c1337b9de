import { beforeDeadline } from "../../../shared/dev/wait.ts";
import { messageOf } from "../../../shared/platform/errors/app-error.ts";
import { EXIT, Shutdown, withStopSignal } from "../../../shared/platform/lifecycle/run-service.ts";
import { silentLogger } from "../../../shared/platform/log/logger.ts";
import type { Chapter } from "./demo.ts";
import { fiveAtOnce, killedGateway, lostReply, paidJob, unfitBody } from "./payments.ts";
import type { PaidChapter } from "./shop.ts";
import { show } from "./show.ts";
import { startDemo } from "./start.ts";
import { sum } from "./sum.ts";
import * as webhooks from "./webhooks.ts";

/** Chapters in the order of the demo. If one cannot continue, the later ones are left out and only the totals follow. */
const CHAPTERS: readonly (Chapter | PaidChapter)[] = [
  webhooks.firstWebhook,
  webhooks.wrongSignature,
  webhooks.realSenders,
  webhooks.recordedRequest,
  webhooks.calledBack,
  webhooks.runnerOutage,
  webhooks.refusedCall,
  webhooks.killedProducer,
  paidJob,
  fiveAtOnce,
  lostReply,
  unfitBody,
  killedGateway,
];
const SUM = "Totals";

const titles = (chapters: typeof CHAPTERS) => chapters.map(({ title }) => `    ${title}\n`).join("");

const USAGE = `usage: npm run demo [-- [--all] [--exit]]

Starts the same processes as "postern dev" on this machine and shows what they do. Each statement is checked before it is printed.
${titles(CHAPTERS.filter(({ more }) => !more))}    ${SUM}

  --all   Show these chapters too:
${titles(CHAPTERS.filter(({ more }) => more))}  --exit  Stop everything at the end, and exit with 0 if all checks passed, else with 1`;

const CHAPTER_DEADLINE_MS = 180_000;

const { argv, env } = process;
const options = argv.slice(2);
const unknown = options.filter((option) => !["--all", "--exit", "--help", "-h"].includes(option));
const [all, stays] = [options.includes("--all"), !options.includes("--exit")];

if (unknown.length > 0) {
  console.error(`unknown option: ${unknown.join(" ")}\n${USAGE}`);
  process.exitCode = EXIT.usage;
} else if (options.includes("--help") || options.includes("-h")) console.log(USAGE);
else process.exit(await withStopSignal(runDemo));

/**
 * Shows all chapters. Then it waits for a stop signal, unless `--exit` is given, and stops all processes. If the stop
 * signal comes while chapters are shown, it stops at once.
 */
async function runDemo(stopped: Promise<unknown>): Promise<number> {
  // If the demo's output is closed, as by `| head`, the rest would not be seen, so the demo ends.
  process.stdout.once("error", () => process.kill(process.pid, "SIGTERM")).on("error", () => {});
  const shutdown = new Shutdown();

  let isWhole = false;
  const shown = showAll(shutdown).then(() => {
    isWhole = true;
  });
  await Promise.race([stays ? shown.then(() => stopped) : shown, stopped]).catch((error: unknown) => {
    show.fail(messageOf(error));
  });
  show.mute();
  const isClean = await shutdown.run(silentLogger);
  return isWhole && isClean && show.counts.wrong === 0 ? EXIT.ok : EXIT.failed;
}

async function showAll(shutdown: Shutdown): Promise<void> {
  show.print('Starting the same processes as "postern dev" ...');
  const { demo, shop } = await startDemo(env, shutdown);
  if (shop === undefined) leaveOutPayments();
  for (const chapter of CHAPTERS) {
    if (chapter.more && !all) continue;
    const content = "show" in chapter ? () => chapter.show(demo) : shop && (() => chapter.buy(shop));
    if (content !== undefined && !(await showChapter(chapter.title, content))) break;
  }
  await showChapter(SUM, () => sum(demo, shop));
  showEnd(`http://${demo.stack.parts.operator.address}`);
}

/** Prints that the chapters about payments are left out. If the environment variable CI is set, this is a failure. */
function leaveOutPayments(): void {
  const statement = "there is no chain, so the chapters about payments are skipped";
  if (env["CI"]) show.fail(`${statement}, which is a failure because CI is set`);
  else show.say(statement);
}

/** Shows a chapter. Returns whether it reached its end. Even then, some of its checks may have failed. */
async function showChapter(title: string, content: () => Promise<void>): Promise<boolean> {
  show.chapter(title);
  try {
    await beforeDeadline("the end of this chapter", content(), CHAPTER_DEADLINE_MS);
    return true;
  } catch (error) {
    show.fail(messageOf(error).split("\n", 1).join());
    return false;
  }
}

/** Prints a summary, the URLs of the stack, and commands to try next. */
function showEnd(operator: string): void {
  const { chapters, checks, wrong } = show.counts;
  const verdict = wrong === 0 ? "all passed" : `${wrong} failed (NO)`;
  show.print(
    "",
    `Shown:    ${chapters} chapters, ${checks} checks; ${verdict}`,
    `Console:  ${stays ? `${operator} shows these calls and payments; press Ctrl-C to stop everything` : "stopped with the demo; without --exit it stays open"}`,
    `Next:     ${all ? "npm run postern -- dev   starts the same for your own webhooks and payments" : "npm run demo -- --all   shows the other chapters"}`,
  );
}
