import { z } from "zod";
import { toTarget } from "../../../shared/call/callback-target.ts";
import { callbacks } from "../../../shared/config/callbacks-toml.ts";
import { openConfigDir } from "../../../shared/config/config-dir.ts";
import { receiverSecret } from "../../../shared/platform/crypto/callback-keys.ts";
import { toAppError } from "../../../shared/platform/errors/app-error.ts";
import { EXIT } from "../../../shared/platform/lifecycle/run-service.ts";
import type { ProgramDeps } from "../program-deps.ts";
import { jsonLine } from "../text.ts";

export type SecretOptions = { configDir: string; json?: boolean };

/**
 * `postern callbacks show-secret`: prints the secrets with which a receiver verifies callbacks. Reads only [callbacks]
 * of postern.toml, so the command works even if other secrets of the configuration are missing.
 */
export function printReceiverSecret(
  deps: ProgramDeps,
  text: string,
  { configDir, json }: SecretOptions,
): number {
  const { url } = toTarget(new URL(text));
  try {
    const files = openConfigDir(configDir);
    const schema = z.looseObject({ callbacks: callbacks({ env: deps.env, dir: configDir }).optional() });
    const postern = files.checked(files.read({ name: "postern.toml", schema }));
    const secrets = (postern.callbacks?.secret ?? []).map((secret) => receiverSecret(secret, url));
    if (secrets.length === 0)
      throw new Error("postern.toml has no [callbacks] secret; see docs/callbacks.md to create one");
    if (url !== text) deps.note(`callbacks are sent to ${url}, the normal form of this URL\n`);
    if (json) deps.print(jsonLine({ url, secrets }));
    else deps.print(`${secrets.join("\n")}\n`);
    return EXIT.ok;
  } catch (thrown) {
    deps.printError(`${toAppError(thrown).message}\n`);
    return EXIT.config;
  }
}
