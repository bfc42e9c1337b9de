import { z } from "zod";
import { AppError } from "../platform/errors/app-error.ts";
import { openConfigDir } from "./config-dir.ts";
import { isTable } from "./fields.ts";
import type { Env } from "./secrets.ts";
import { type AcceptedToken, acceptedToken, withTokenDefaults } from "./x402-toml.ts";

/** Extent of the tokens' data that a command needs: names; names and node URLs; or everything, rates included. */
export type TokenUse = "names" | "chains" | "rates";

/**
 * Loads the accepted tokens of x402.toml for a command, with only the credentials that the command uses. If the command
 * needs no rates, each rate is "1". Returns undefined if there is no `x402.toml`. Throws `start.config_invalid`.
 */
export function loadAcceptedTokens(
  { dir, env }: { dir: string; env: Env },
  use: TokenUse,
): readonly AcceptedToken[] | undefined {
  const files = openConfigDir(dir);
  if (!files.has("x402.toml")) return undefined;
  const schema = z.object({
    accepted_tokens: z.array(acceptedToken({ env, dir })).min(1, "must list at least one token"),
  });
  const narrowed = (table: unknown) => narrowedTo(use, withTokenDefaults(table));
  return files.checked(files.read({ name: "x402.toml", schema, narrowed })).accepted_tokens;
}

/** Loads the accepted tokens. Throws `start.config_invalid`, also if there is no `x402.toml`. */
export function requireAcceptedTokens(
  options: { dir: string; env: Env },
  use: TokenUse,
): readonly AcceptedToken[] {
  const tokens = loadAcceptedTokens(options, use);
  if (tokens !== undefined) return tokens;
  throw new AppError("start.config_invalid", { reason: `${options.dir}/x402.toml: file not found` });
}

function narrowedTo(use: TokenUse, table: unknown): unknown {
  if (!isTable(table) || !Array.isArray(table["accepted_tokens"])) return table;
  return { ...table, accepted_tokens: table["accepted_tokens"].map((token) => narrowedToken(use, token)) };
}

function narrowedToken(use: TokenUse, token: unknown): unknown {
  if (!isTable(token) || use === "rates") return token;
  const { rpc_url, ...rest } = token;
  const chain = use === "chains" && rpc_url !== undefined ? { rpc_url } : {};
  return { ...rest, ...chain, rate_per_native_unit: "1" };
}

/** Finds the token with this network and contract address. */
export function tokenOf(
  tokens: readonly AcceptedToken[],
  { network, asset }: { network: string; asset: string },
): AcceptedToken | undefined {
  return tokens.find((each) => each.network === network && each.asset.toLowerCase() === asset.toLowerCase());
}
