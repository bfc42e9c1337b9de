import { beforeDeadline, eventually } from "../../../shared/dev/wait.ts";
import { offersOf } from "../offers.ts";
import type { Demo, Scene } from "../scene.ts";
import { sendSeveral } from "../send-several.ts";

const CALLS = 5;

/** SIGKILL at the worst instant: the runner has answered, and the producer has not written it down. */
export const killedProducer: Scene = {
  title: "The producer is killed in the middle of injecting; nothing is lost, nothing runs twice",
  async play(demo) {
    const { stage, parts, world, runner } = demo;
    await parts.producer.kill("SIGTERM");
    await parts.producer.restart({ POSTERN_FAILPOINT: "producer.after_post" });
    stage.say(
      "the next producer gets SIGKILL as soon as the runner has answered it, before it records anything",
    );

    const calls = await sendSeveral(demo, { count: CALLS, about: "kill" });
    const exit = await beforeDeadline("the producer is killed", parts.producer.process.exit);
    stage.check("the producer is killed by SIGKILL", exit.signal, "SIGKILL");
    const queued = await world.queue.look();
    stage.check(`all ${CALLS} calls are still in the queue`, queued, { waiting: CALLS, failed: 0 });

    await parts.producer.restart();
    stage.say("a new producer starts; it takes back what the dead one held once its locks have lapsed (3 s)");
    const ids = calls.map(({ callId }) => callId);
    const injected = await world.logs.producer.forEach("call.injected", ids);
    await runner.untilDone(calls);
    stage.check(`${CALLS} of ${CALLS} are delivered`, injected.length, CALLS);
    await showOffers(demo, ids);
  },
};

async function showOffers({ stage, world }: Demo, ids: readonly string[]): Promise<void> {
  const offers = () => offersOf(world.logs.runner, (callId) => ids.includes(callId));
  await eventually("the runner's log has a run of each call, and a repeat", () => {
    const { runs, remembered } = offers();
    return runs.size >= ids.length && remembered.length > 0;
  });
  const { runs, remembered } = offers();
  stage.check(
    "each of them ran once",
    ids.map((id) => runs.get(id)),
    ids.map(() => 1),
  );
  stage.check(
    `what had run before the kill was offered again, and answered from memory (${remembered.length} of ${ids.length})`,
    remembered.map(({ status }) => status),
    remembered.map(() => 200),
  );
  for (const event of remembered.slice(0, 2)) stage.log("runner", event);
}
