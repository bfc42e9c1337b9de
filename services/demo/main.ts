import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { messageOf } from "../../shared/errors/app-error.ts";
import { EXIT, Shutdown, stopSignal } from "../../shared/lifecycle/run-service.ts";
import { silentLogger } from "../../shared/log/logger.ts";
import { play } from "./play.ts";
import { sayWhatStays } from "./say-what-stays.ts";
import { setUp } from "./set-up.ts";
import { createStage } from "./stage.ts";

const USAGE = `usage: npm run demo [-- --exit]

Starts Redis, a runner, a producer, a webhooks gateway, and a devnet with an x402 gateway that sells jobs on it, all on
this machine, and shows, checked, what they do.
  --exit  end everything afterwards, with exit code 0 if all that was shown was so, else 1`;

const { argv, env } = process;
const options = argv.slice(2);
const unknown = options.filter((option) => !["--exit", "--help", "-h"].includes(option));

if (unknown.length > 0) {
  console.error(`unknown: ${unknown.join(" ")}\n${USAGE}`);
  process.exitCode = EXIT.usage;
} else if (options.includes("--help") || options.includes("-h")) console.log(USAGE);
else process.exit(await runDemo({ stays: !options.includes("--exit") }));

/** Shows everything, stays up if asked to, and ends everything; a signal ends it early. */
async function runDemo({ stays }: { stays: boolean }): Promise<number> {
  process.on("SIGHUP", () => process.kill(process.pid, "SIGTERM"));
  // Who reads what is said has left: nobody is there to show the rest to.
  process.stdout.once("error", () => process.kill(process.pid, "SIGTERM")).on("error", () => {});
  const stopped = stopSignal();
  const home = mkdtempSync(join(tmpdir(), "postern-demo-"));
  process.once("exit", () => rmSync(home, { recursive: true, force: true, maxRetries: 3 }));
  const shutdown = new Shutdown();
  const colour = process.stdout.isTTY === true && env["NO_COLOR"] === undefined;
  const stage = createStage({ print: console.log, colour, columns: process.stdout.columns || 120 });

  let exitCode: number = EXIT.failed;
  const show = setUp({ home, env, stage, shutdown }).then(async (demo) => {
    await play(demo);
    exitCode = stage.failures === 0 ? EXIT.ok : EXIT.failed;
    if (stays) sayWhatStays(demo);
  });
  await Promise.race([stays ? show.then(() => stopped) : show, stopped]).catch((error: unknown) => {
    stage.fail(messageOf(error));
  });
  stage.leave();
  if (stage.failures > 0) console.log(`\nNot so, of what was said above: ${stage.failures}.`);
  console.log("\nEnding everything.");
  return (await shutdown.run(silentLogger)) ? exitCode : EXIT.failed;
}
