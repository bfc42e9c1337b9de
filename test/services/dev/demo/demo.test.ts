import { beforeAll, expect, test } from "vitest";
import { eventually } from "../../../../shared/dev/wait.ts";
import { usePostern } from "../../../fixtures/postern.ts";
import { keys, useRedis } from "../../../fixtures/redis.ts";
import { canConnect } from "../../../support/http.ts";
import { onlyInLongRun } from "../../../support/long-run.ts";
import { PATIENCE_MS, SUM, startDemo, wrongIn } from "./start-demo.ts";

const redis = useRedis();
const postern = usePostern();

/** Titles of the chapters, in the order of the help: those of every demo, and those that --all adds. */
let titles: { always: string[]; more: string[] };
function shownIn(text: string): string[] {
  return [...text.matchAll(/^\d+\. (.+)$/gm)].map(([, title = ""]) => title);
}

/** Returns every port of this machine in the demo's output. */
function portsIn(text: string): number[] {
  return [...new Set([...text.matchAll(/127\.0\.0\.1:(\d+)/g)].map(([, port]) => Number(port)))];
}

async function listening(ports: readonly number[]): Promise<number[]> {
  const open = await Promise.all(ports.map(canConnect));
  return ports.filter((_, i) => open[i]);
}

const PAID_SUM =
  /^ {2}ok {2}It adds up: (\d+) payments = \1 charges on the chain, (\d+\.\d{6}) USDC in total$/m;

onlyInLongRun(() => {
  beforeAll(async () => {
    const { demo, text } = startDemo(postern, ["--help"]);
    await demo.exit;
    const [always = "", more = ""] = text().split("--all   Show these chapters too:");
    const in_ = (part: string) => [...part.matchAll(/^ {4}(.+)$/gm)].map(([, title = ""]) => title);
    titles = { always: in_(always), more: in_(more) };
  });

  test("a demo shows its seven chapters, keeps running with the console in its last lines, and leaves nothing behind after a signal", {
    timeout: PATIENCE_MS,
  }, async () => {
    const { demo, text } = startDemo(postern, []);
    await eventually("the show has ended", () => text().includes("\nNext: "), PATIENCE_MS);
    expect(wrongIn(text())).toEqual([]);
    expect(shownIn(text())).toEqual(titles.always);
    expect(titles.always).toHaveLength(7);
    expect(text()).toMatch(SUM);
    expect(PAID_SUM.exec(text())?.slice(1)).toEqual(["2", "0.096000"]);
    const end = text().split("\n").slice(-3);
    expect(end[0]).toMatch(/^Shown: +7 chapters, \d+ checks; all passed$/);
    expect(end[2]).toMatch(/^Next: +npm run demo -- --all /);
    const [, operator = ""] = /^Console: +(http:\/\/127\.0\.0\.1:\d+) /.exec(end[1] ?? "") ?? [];
    expect(await (await fetch(operator)).text()).toContain("<script");
    expect(await demo.kill("SIGTERM")).toEqual({ code: 0, signal: null });
    expect(await listening(portsIn(text()))).toEqual([]);
  });

  test("a demo with --all and --exit shows every chapter, its counts add up, and it exits with 0", {
    timeout: PATIENCE_MS,
  }, async () => {
    const { demo, text } = startDemo(postern, ["--all", "--exit"]);
    const exit = await demo.exit;
    expect(wrongIn(text())).toEqual([]);
    expect(exit, text()).toEqual({ code: 0, signal: null });
    expect(shownIn(text()).toSorted()).toEqual([...titles.always, ...titles.more].toSorted());
    expect(text()).toMatch(SUM);
    expect(PAID_SUM.exec(text())?.slice(1)).toEqual(["4", "0.160000"]);
  });

  test("a signal during a demo ends all of it within seconds, with exit code 1", {
    timeout: PATIENCE_MS,
  }, async () => {
    const { demo, text } = startDemo(postern, []);
    await eventually(
      "the runner is away",
      () => text().includes("8 webhooks are sent, and all get 202"),
      PATIENCE_MS,
    );
    expect(await demo.kill("SIGTERM")).toEqual({ code: 1, signal: null });
    expect(await listening(portsIn(text()))).toEqual([]);
    expect(text()).not.toMatch(/^Shown:/m);
  });
});

test("a demo refuses a Redis with another producer, and does not change it", async () => {
  await redis.client.zadd(keys.workers, Date.now() + PATIENCE_MS, "another producer");
  const { demo, text } = startDemo(postern, ["--exit"], { env: { REDIS_URL: redis.url } });
  expect(await demo.exit).toEqual({ code: 1, signal: null });
  expect(text()).toContain("The Redis of REDIS_URL is in use (waiting 0, failed 0, producers 1)");
  expect(await redis.client.keys("*")).toEqual([keys.workers]);
});
