import { loadAcceptedTokens, type TokenUse } from "../../shared/config/accepted-tokens.ts";
import type { AcceptedToken } from "../../shared/config/x402-toml.ts";
import { AppError, toAppError } from "../../shared/errors/app-error.ts";
import type { ProgramDeps } from "./program-deps.ts";

/** Reads the accepted tokens of x402.toml. If they cannot be read it prints why and returns undefined. */
export function readAcceptedTokens(
  { env, printError }: ProgramDeps,
  configDir: string,
  use: TokenUse = "chains",
): readonly AcceptedToken[] | undefined {
  try {
    const tokens = loadAcceptedTokens({ dir: configDir, env }, use);
    if (tokens !== undefined) return tokens;
    printError(
      new AppError("start.config_invalid", { reason: `${configDir}/x402.toml: there is no such file` }),
    );
  } catch (thrown) {
    printError(toAppError(thrown));
  }
  return undefined;
}
