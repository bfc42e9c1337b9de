import { messageOf } from "../../shared/errors/app-error.ts";
import type { Demo, Scene } from "./scene.ts";
import { badSignature } from "./scenes/bad-signature.ts";
import { finalCounts } from "./scenes/final-counts.ts";
import { fourCredentials } from "./scenes/four-credentials.ts";
import { killedProducer } from "./scenes/killed-producer.ts";
import { runnerOutage } from "./scenes/runner-outage.ts";
import { signedCurl } from "./scenes/signed-curl.ts";
import { wrongSecret } from "./scenes/wrong-secret.ts";
import { within } from "./until.ts";

const SCENES = [signedCurl, fourCredentials, badSignature, runnerOutage, wrongSecret, killedProducer];
const SCENE_DEADLINE_MS = 60_000;

/** Plays the scenes in turn, as far as they get, and in any case the last one, which counts. */
export async function play(demo: Demo): Promise<void> {
  for (const scene of SCENES) {
    if (!(await playOne(demo, scene))) break;
  }
  await playOne(demo, finalCounts);
}

/** Whether the scene came to its end; statements in it may have failed. */
async function playOne(demo: Demo, scene: Scene): Promise<boolean> {
  demo.stage.scene(scene.title);
  try {
    await within(`the end of "${scene.title}"`, scene.play(demo), SCENE_DEADLINE_MS);
    return true;
  } catch (error) {
    for (const line of messageOf(error).split("\n", 1)) demo.stage.fail(line);
    return false;
  }
}
