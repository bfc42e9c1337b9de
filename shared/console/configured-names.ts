import { z } from "zod";
import type { AcceptedToken } from "../config/x402-toml.ts";
import { isPublicHost } from "../http/ip/public-address.ts";
import type { TokenSource } from "./tokens.ts";

/**
 * Names in the configuration. With them, a client can reject a filter that has an unknown name. A list is empty if
 * its names are not known.
 */
export const ConfiguredNames = z.object({
  /** Paths of the webhook endpoints. */
  endpoints: z.array(z.string()),
  /** Names of jobs, by `<service id>/<job index>`. */
  jobs: z.record(z.string(), z.string()),
  /** Networks of the accepted tokens (CAIP-2). */
  networks: z.array(z.string()),
  /**
   * Networks whose nodes (`rpc_url`) are all on the public internet. Only for these may a page link to a public
   * block explorer. A local chain, such as the devnet, can have the network id of a public chain. The explorer
   * would then show the wrong chain.
   */
  public_networks: z.array(z.string()),
});
export type ConfiguredNames = z.infer<typeof ConfiguredNames>;

export type ReadConfiguredNames = () => Promise<ConfiguredNames>;

export function createReadConfiguredNames({
  paths,
  jobNames,
  tokens,
}: {
  paths: () => readonly string[];
  jobNames: () => Record<string, string>;
  tokens: Pick<TokenSource, "names" | "chains">;
}): ReadConfiguredNames {
  return async () => {
    const networks = networksOf(tokens.names());
    const chains = chainsOf(tokens);
    const isPublic = (network: string) =>
      chains.some((token) => token.network === network) &&
      chains.every((token) => token.network !== network || hasPublicNode(token));
    return {
      endpoints: [...paths()],
      jobs: jobNames(),
      networks,
      public_networks: networks.filter(isPublic),
    };
  };
}

function networksOf(tokens: readonly AcceptedToken[]): string[] {
  return [...new Set(tokens.map(({ network }): string => network))];
}

/**
 * Returns the accepted tokens. Returns none if they cannot be loaded, for example because a secret in `rpc_url` is
 * missing.
 */
function chainsOf(tokens: Pick<TokenSource, "chains">): readonly AcceptedToken[] {
  try {
    return tokens.chains();
  } catch {
    return [];
  }
}

function hasPublicNode({ rpc_url: node }: AcceptedToken): boolean {
  return node !== undefined && isPublicHost(new URL(node.reveal()).hostname);
}
