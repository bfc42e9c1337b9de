import type { LoggedEvent } from "../../../shared/dev/process.ts";
import type { Scene } from "../scene.ts";
import { sendSeveral } from "../send-several.ts";

const CALLS = 8;

/** The runner is away for a while: calls are accepted, retried, and delivered when it is back. */
export const runnerOutage: Scene = {
  title: "The runner is stopped; calls are accepted, retried and delivered when it returns",
  async play(demo) {
    const { stage, parts, world, runner } = demo;
    const exit = await parts.runner.kill("SIGTERM");
    stage.check("the runner is told to stop (SIGTERM) and ends with exit code 0", exit.code, 0);

    const calls = await sendSeveral(demo, { count: CALLS, about: "outage" });
    const ids = calls.map(({ callId }) => callId);
    const delayed = await world.logs.producer.forEach("call.delayed", ids);
    stage.check(
      `the producer finds no runner, and tries each of the ${CALLS} again later`,
      delayed.map(({ code }) => code),
      ids.map(() => "runner.unreachable"),
    );
    for (const event of delayed.slice(0, 2)) stage.log("producer", event);
    stage.check("none is lost or failed meanwhile", await world.queue.look(), { waiting: CALLS, failed: 0 });

    await parts.runner.restart();
    stage.say(`the runner is started again at ${parts.runner.address}`);
    const injected = await world.logs.producer.forEach("call.injected", ids);
    await runner.untilDone(calls);
    stage.check(`${CALLS} of ${CALLS} are delivered, ${attempts(injected)}`, injected.length, CALLS);
    for (const event of injected.slice(-1)) stage.log("producer", event);
  },
};

function attempts(injected: readonly LoggedEvent[]): string {
  const numbers = injected.map(({ attempt }) => Number(attempt));
  const [least, most] = [Math.min(...numbers), Math.max(...numbers)];
  return least === most ? `each at attempt ${most}` : `at attempts ${least} to ${most}`;
}
