import { linkSync, mkdirSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { readToml, toToml } from "../../shared/config/config-tables.ts";
import { type DevSecrets, newDevSecrets } from "../../shared/dev/config.ts";
import { AppError, messageOf } from "../../shared/platform/errors/app-error.ts";
import type { Logger } from "../../shared/platform/log/logger.ts";
import { isAbsent } from "../../shared/platform/text/read-text.ts";

const HEAD = `# Secrets that postern dev generated for this folder, and uses again at the next start. Delete the file to get new ones.
# Use them on this machine only.
`;

/**
 * Returns a function that reads the secrets of `postern dev` from the file `.postern/dev-secrets.toml` in `folder`. If
 * there is no such file, it generates secrets and writes them there, hidden from git. If they cannot be written, it logs
 * a warning and still returns them. Throws `start.config_invalid` if the file's content is not valid.
 */
export function keptSecrets(folder: string, log: Logger): () => DevSecrets {
  let secrets: DevSecrets | undefined;
  return () => {
    secrets ??= readOrMake(folder, log);
    return secrets;
  };
}

function readOrMake(folder: string, log: Logger): DevSecrets {
  const home = join(folder, ".postern");
  const file = join(home, "dev-secrets.toml");
  if (!isAbsent(file)) return read(file);
  const secrets = newDevSecrets();
  try {
    mkdirSync(home, { recursive: true, mode: 0o700 });
    writeFileSync(join(home, ".gitignore"), "*\n");
    return create(file, secrets);
  } catch (error) {
    if (error instanceof AppError) throw error;
    log.warn("dev.secrets_not_saved", {
      reason: `${messageOf(error)}; the next start generates new secrets`,
    });
    return secrets;
  }
}

/**
 * Creates the file with all secrets in one step, so that no process can read a half-written file. If another
 * `postern dev` has created it first, returns the secrets of that file.
 */
function create(file: string, secrets: DevSecrets): DevSecrets {
  const draft = `${file}.${process.pid}`;
  writeFileSync(draft, `${HEAD}\n${toToml(secrets)}`, { mode: 0o600 });
  try {
    linkSync(draft, file);
    return secrets;
  } catch (error) {
    if (isAbsent(file)) throw error;
    return read(file);
  } finally {
    rmSync(draft, { force: true });
  }
}

function read(file: string): DevSecrets {
  const expected = newDevSecrets();
  try {
    const table = readToml(file);
    const names = Object.keys(expected) as (keyof DevSecrets)[];
    const wrong = names.filter((name) => !/^[0-9a-f]{64}$/.test(String(table[name])));
    if (wrong.length > 0) throw new Error(`${wrong.join(", ")}: must be 64 hex digits`);
    return table as DevSecrets;
  } catch (cause) {
    const reason = `${file}: ${messageOf(cause)}; delete the file, and postern dev generates new secrets`;
    throw new AppError("start.config_invalid", { reason, cause });
  }
}
