import { looksRandom } from "../platform/crypto/random-secret.ts";
import type { CheckedTables } from "./checked-tables.ts";
import { isInTheClear, type OperatorToml, operatorToml } from "./operator-toml.ts";
import { type PosternConfig, type Reader, readPostern } from "./read-postern.ts";
import { secretWarnings } from "./secret-warnings.ts";
import type { Env } from "./secrets.ts";

const OPERATOR = "operator.toml";

export type OperatorConfig = PosternConfig & { operator: OperatorToml };

/** Reads `operator.toml` and `postern.toml`. Adds problems to `files`. */
export function readOperator(files: CheckedTables, env: Env, reader: Reader | undefined): OperatorConfig {
  const operator = files.read({ name: OPERATOR, schema: operatorToml({ env, dir: files.dir }) });
  const config = readPostern(files, env, reader);
  return files.checked(
    config && operator && { ...config, operator, warnings: [...config.warnings, ...warningsOf(operator)] },
  );
}

function warningsOf(operator: OperatorToml): string[] {
  const clear = isInTheClear(operator, operator.bind_address)
    ? [
        `${OPERATOR}: bind_address: tokens and sessions cross the network unencrypted; put a TLS proxy in front, and set public_url to its https URL`,
      ]
    : [];
  return [...secretWarnings(OPERATOR, operator), ...guessable(operator), ...clear];
}

/**
 * Warns about each entry with a token that could be guessed. The console counts the wrong tokens that each client
 * address sends. After too many, it refuses even the right token from this address, unless the token looks random.
 */
function guessable({ tokens }: OperatorToml): string[] {
  const warning =
    "is easy to guess. After too many wrong tokens from an address, that address cannot use it. Use the output of openssl rand -hex 32";
  return tokens.flatMap(({ token }, at) =>
    token.every(looksRandom) ? [] : [`${OPERATOR}: tokens[${at}].token: ${warning}`],
  );
}
