import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { DEV_JOBS, exampleBody } from "../../shared/dev/config.ts";
import { readyCurl, readyPay } from "../../shared/dev/ready-commands.ts";
import { beforeDeadline } from "../../shared/dev/wait.ts";
import { messageOf } from "../../shared/errors/app-error.ts";
import { EXIT, Shutdown, stopSignal } from "../../shared/lifecycle/run-service.ts";
import { silentLogger } from "../../shared/log/logger.ts";
import { followedAndCalledBack } from "./callbacks.ts";
import { operatorsConsole } from "./console.ts";
import { showCounts } from "./counts.ts";
import { type Demo, type PaidScenario, type Scenario, startDemo } from "./demo.ts";
import { killedProducer, runnerOutage, wrongSecret } from "./failures.ts";
import { fiveAtOnce, killedGateway, lostReply } from "./payment-failures.ts";
import { deniedCaller, price, signedQuote, unfitBody, versionOne, versionTwo } from "./payments.ts";
import { githubEvents, realSenders, recordedStripe } from "./real-senders.ts";
import { createShow } from "./show.ts";
import { badSignature, fourCredentials, signedCurl } from "./webhooks.ts";

const USAGE = `usage: npm run demo [-- --exit]

Starts Redis, a runner, a producer, a webhooks gateway, the operator's console, and a devnet with an x402 gateway that sells jobs on it, all on
this machine, and shows, checked, what they do.
  --exit  end everything afterwards, with exit code 0 if all that was shown was so, else 1`;

const SCENARIOS: readonly Scenario[] = [
  signedCurl,
  fourCredentials,
  badSignature,
  realSenders,
  githubEvents,
  recordedStripe,
  followedAndCalledBack,
  runnerOutage,
  wrongSecret,
  killedProducer,
];
const PAID_SCENARIOS: readonly PaidScenario[] = [
  price,
  versionTwo,
  versionOne,
  fiveAtOnce,
  lostReply,
  killedGateway,
  deniedCaller,
  unfitBody,
  signedQuote,
];
const SCENARIO_DEADLINE_MS = 180_000;

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
  // The reader of the output has left: nobody is there to see the rest.
  process.stdout.once("error", () => process.kill(process.pid, "SIGTERM")).on("error", () => {});
  const stopped = stopSignal();
  const home = mkdtempSync(join(tmpdir(), "postern-demo-"));
  process.once("exit", () => rmSync(home, { recursive: true, force: true, maxRetries: 3 }));
  const shutdown = new Shutdown();
  const colour = process.stdout.isTTY === true && env["NO_COLOR"] === undefined;
  const show = createShow(console.log, colour, process.stdout.columns || 120);

  let exitCode: number = EXIT.failed;
  const shown = startDemo(home, env, show, shutdown).then(async (demo) => {
    await runScenarios(demo);
    exitCode = show.failures === 0 ? EXIT.ok : EXIT.failed;
    if (stays) showWhatStays(demo);
  });
  await Promise.race([stays ? shown.then(() => stopped) : shown, stopped]).catch((error: unknown) => {
    show.fail(messageOf(error));
  });
  show.end();
  if (show.failures > 0) console.log(`\nNot so, of what was said above: ${show.failures}.`);
  console.log("\nEnding everything.");
  return (await shutdown.run(silentLogger)) ? exitCode : EXIT.failed;
}

/** Runs the scenarios in turn, as far as they get, and in any case the last two, which look back at all of it. */
async function runScenarios(demo: Demo): Promise<void> {
  const { payments } = demo;
  const paid =
    payments === undefined
      ? []
      : PAID_SCENARIOS.map(
          (scenario): Scenario =>
            (given) =>
              scenario(given, payments),
        );
  for (const scenario of [...SCENARIOS, ...paid]) {
    if (!(await runScenario(demo, scenario))) break;
  }
  await runScenario(demo, showCounts);
  await runScenario(demo, operatorsConsole);
}

/** Whether the scenario came to its end; some of its statements may have failed. */
async function runScenario(demo: Demo, scenario: Scenario): Promise<boolean> {
  try {
    await beforeDeadline("the end of this scenario", scenario(demo), SCENARIO_DEADLINE_MS);
    return true;
  } catch (error) {
    for (const line of messageOf(error).split("\n", 1)) demo.show.fail(line);
    return false;
  }
}

/** Prints the address of everything that stays up, and how to use it. */
function showWhatStays({ show, world, parts, payments }: Demo): void {
  const { webhooks, producer, runner, operator } = parts;
  show.scenario("All of it stays up");
  const row = (name: string, address: string) => show.say(`${name.padEnd(10)}${address}`);
  row("console", `http://${operator.address}   open it in a browser`);
  row("webhooks", `http://${webhooks.address}   metrics: http://${webhooks.opsAddress}/metrics`);
  row("producer", `metrics: http://${producer.opsAddress}/metrics`);
  row("runner", `http://${runner.address}   what it ran: http://${runner.address}/calls`);
  row("redis", world.redisUrl);
  if (payments !== undefined) {
    const { gateway, devnet } = payments;
    row("x402", `http://${gateway.address}   metrics: http://${gateway.opsAddress}/metrics`);
    row("devnet", `${devnet.rpcUrl}   facilitator: ${devnet.facilitatorUrl}   faults: ${devnet.controlUrl}`);
  }
  for (const endpoint of world.endpoints) {
    const { path, auth, job_id: jobId } = endpoint;
    show.say("");
    show.say(`${path}  (${endpoint.preset ?? auth}, job ${jobId ?? "by event"})`);
    const curl = readyCurl(endpoint, { address: webhooks.address, body: exampleBody(jobId) });
    if (curl !== undefined) show.say(curl);
  }
  if (payments !== undefined) {
    const { path, jobId } = payments.order(DEV_JOBS.echo, "");
    const url = `http://${payments.gateway.address}${path}`;
    show.say("");
    show.say(`${path}  (x402, job ${jobId}; price: ${url}/price)`);
    show.say(readyPay(url, { body: "hi", payerKey: payments.devnet.payers[0]?.privateKey ?? "" }));
  }
  show.say("");
  show.say("Ctrl-C ends all of it.");
}
