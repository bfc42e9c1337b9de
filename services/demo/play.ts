import { beforeDeadline } from "../../shared/dev/wait.ts";
import { messageOf } from "../../shared/errors/app-error.ts";
import type { Demo, PaidScene, Scene } from "./scene.ts";
import { badSignature } from "./scenes/bad-signature.ts";
import { finalCounts } from "./scenes/final-counts.ts";
import { fourCredentials } from "./scenes/four-credentials.ts";
import { killedProducer } from "./scenes/killed-producer.ts";
import { deniedCaller } from "./scenes/paid/denied-caller.ts";
import { fiveAtOnce } from "./scenes/paid/five-at-once.ts";
import { killedGateway } from "./scenes/paid/killed-gateway.ts";
import { lostReply } from "./scenes/paid/lost-reply.ts";
import { price } from "./scenes/paid/price.ts";
import { signedQuote } from "./scenes/paid/signed-quote.ts";
import { versionOne } from "./scenes/paid/version-one.ts";
import { versionTwo } from "./scenes/paid/version-two.ts";
import { runnerOutage } from "./scenes/runner-outage.ts";
import { signedCurl } from "./scenes/signed-curl.ts";
import { wrongSecret } from "./scenes/wrong-secret.ts";

const SCENES = [signedCurl, fourCredentials, badSignature, runnerOutage, wrongSecret, killedProducer];
const PAID_SCENES = [
  price,
  versionTwo,
  versionOne,
  fiveAtOnce,
  lostReply,
  killedGateway,
  deniedCaller,
  signedQuote,
];
const SCENE_DEADLINE_MS = 60_000;

/** Plays the scenes in turn, as far as they get, and in any case the last one, which counts. */
export async function play(demo: Demo): Promise<void> {
  for (const scene of [...SCENES, ...paidScenes(demo)]) {
    if (!(await playOne(demo, scene))) break;
  }
  await playOne(demo, finalCounts);
}

function paidScenes({ shop }: Demo): Scene[] {
  if (shop === undefined) return [];
  return PAID_SCENES.map(({ title, play }: PaidScene) => ({ title, play: (demo) => play(demo, shop) }));
}

/** Whether the scene came to its end; statements in it may have failed. */
async function playOne(demo: Demo, scene: Scene): Promise<boolean> {
  demo.stage.scene(scene.title);
  try {
    await beforeDeadline(`the end of "${scene.title}"`, scene.play(demo), SCENE_DEADLINE_MS);
    return true;
  } catch (error) {
    for (const line of messageOf(error).split("\n", 1)) demo.stage.fail(line);
    return false;
  }
}
