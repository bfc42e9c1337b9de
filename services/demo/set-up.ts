import type { Shutdown } from "../../shared/lifecycle/run-service.ts";
import { createPostern } from "./postern-command.ts";
import { createRunnerView } from "./runner-view.ts";
import type { Demo } from "./scene.ts";
import { startUp } from "./scenes/start-up.ts";
import { createSender } from "./sender.ts";
import type { Stage } from "./stage.ts";
import { createTally } from "./tally.ts";
import { createWorld } from "./world.ts";

export type SetUpOptions = {
  /** A folder for this run alone. */
  home: string;
  env: NodeJS.ProcessEnv;
  stage: Stage;
  shutdown: Shutdown;
};

/** The first scene, and what the others play with. Rejects when a part cannot be started. */
export async function setUp({ home, env, stage, shutdown }: SetUpOptions): Promise<Demo> {
  const world = await createWorld({ home, env, shutdown });
  const { shop, ...parts } = await startUp({ world, stage, shutdown });
  const tally = createTally();
  return {
    stage,
    world,
    parts,
    tally,
    sender: createSender(parts.webhooks.address, tally),
    runner: createRunnerView(parts.runner.address, world.runnerSecret, tally),
    postern: createPostern(world),
    shop,
    endpoint(auth) {
      const endpoint = world.endpoints.find((each) => each.auth === auth);
      if (endpoint === undefined) throw new Error(`expected: an endpoint with ${auth}`);
      return endpoint;
    },
  };
}
