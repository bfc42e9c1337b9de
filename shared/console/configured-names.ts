import { z } from "zod";
import type { AcceptedToken } from "../config/x402-toml.ts";
import { isPublicHost } from "../http/ip/public-address.ts";
import type { TokenSource } from "./tokens.ts";

/** Names in the configuration, so that a filter by a name that is not there can say so. A list is empty if its names are not known. */
export const ConfiguredNames = z.object({
  /** Paths of the webhook endpoints. */
  endpoints: z.array(z.string()),
  /** Names of jobs, by `<service id>/<job index>`. */
  jobs: z.record(z.string(), z.string()),
  /** Networks of the accepted tokens (CAIP-2). */
  networks: z.array(z.string()),
  /**
   * Those of them whose nodes are all on the public internet. Only of these does a public explorer show the chain: a chain of this machine, as
   * the devnet's, has the id of a public one.
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

/** None if a URL of a node cannot be read. */
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
