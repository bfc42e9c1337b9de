import type { EndpointToml } from "../../shared/config/webhooks-toml.ts";
import { messageOf } from "../../shared/errors/app-error.ts";
import type { Shutdown } from "../../shared/lifecycle/shutdown.ts";
import { goodbye } from "./goodbye.ts";
import { createPostern } from "./postern-command.ts";
import { createRunnerView } from "./runner-view.ts";
import type { Demo, Scene } from "./scene.ts";
import { badSignature } from "./scenes/bad-signature.ts";
import { finalCounts } from "./scenes/final-counts.ts";
import { fourCredentials } from "./scenes/four-credentials.ts";
import { killedProducer } from "./scenes/killed-producer.ts";
import { runnerOutage } from "./scenes/runner-outage.ts";
import { signedCurl } from "./scenes/signed-curl.ts";
import { startUp } from "./scenes/start-up.ts";
import { wrongSecret } from "./scenes/wrong-secret.ts";
import { createSender } from "./sender.ts";
import type { Stage } from "./stage.ts";
import { createTally } from "./tally.ts";
import { within } from "./until.ts";
import { createWorld } from "./world.ts";

const SCENES = [signedCurl, fourCredentials, badSignature, runnerOutage, wrongSecret, killedProducer];
const SCENE_DEADLINE_MS = 60_000;

type Options = { home: string; env: NodeJS.ProcessEnv; stage: Stage; shutdown: Shutdown };

/** Plays every scene, and counts at the end whatever became of them. Rejects when the parts cannot be started. */
export async function runDemo(options: Options): Promise<Demo> {
  const demo = await setUp(options);
  if (await plays(demo, SCENES)) goodbye(demo);
  return demo;
}

async function setUp({ home, env, stage, shutdown }: Options): Promise<Demo> {
  const world = await createWorld({ home, env, shutdown });
  const parts = await startUp(world, stage);
  const tally = createTally();
  return {
    stage,
    world,
    parts,
    tally,
    sender: createSender(parts.webhooks.address, tally),
    runner: createRunnerView(parts.runner.address, world.runnerSecret),
    postern: createPostern(world),
    endpoint: (auth) => endpointOf(world.endpoints, auth),
  };
}

async function plays(demo: Demo, scenes: readonly Scene[]): Promise<boolean> {
  return scenes.length > 0 && demo !== undefined;
}

function endpointOf(endpoints: readonly EndpointToml[], auth: EndpointToml["auth"]): EndpointToml {
  const endpoint = endpoints.find((each) => each.auth === auth);
  if (endpoint === undefined) throw new Error(`no endpoint with ${auth}`);
  return endpoint;
}
