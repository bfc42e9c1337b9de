import { openConfigDir } from "./config-dir.ts";
import { type Config, type LoadOptions, readConfig } from "./load-config.ts";
import { isInTheClear, type OperatorToml, operatorToml } from "./operator-toml.ts";
import { secretWarnings } from "./secret-warnings.ts";

const OPERATOR = "operator.toml";

export type OperatorConfig = Pick<Config, "postern" | "warnings"> & { operator: OperatorToml };

/** Reads `operator.toml`, if it is there, and `postern.toml`. Throws `start.config_invalid` with every problem of the two. */
export function loadOperatorConfig({ dir, env, reader }: LoadOptions): OperatorConfig {
  const files = openConfigDir(dir);
  const operator = files.read({ name: OPERATOR, schema: operatorToml({ env, dir }) });
  const config = readConfig(files, env, reader);
  return files.checked(
    config && operator && { ...config, operator, warnings: [...config.warnings, ...warningsOf(operator)] },
  );
}

function warningsOf(operator: OperatorToml): string[] {
  const clear = isInTheClear(operator, operator.bind_address)
    ? [
        `${OPERATOR}: bind_address: tokens and sessions cross the network as they are; put TLS before it, and say so with public_url`,
      ]
    : [];
  return [...secretWarnings(OPERATOR, operator), ...clear];
}
