import { z } from "zod";
import type { TokenSource } from "./tokens.ts";

/** Names in the configuration, so that a filter by a name that is not there can say so. A list is empty if its names are not known. */
export const ConfiguredNames = z.object({
  /** Paths of the webhook endpoints. */
  endpoints: z.array(z.string()),
  /** Networks of the accepted tokens (CAIP-2). */
  networks: z.array(z.string()),
});
export type ConfiguredNames = z.infer<typeof ConfiguredNames>;

export type ReadConfiguredNames = () => Promise<ConfiguredNames>;

export function createReadConfiguredNames({
  paths,
  tokens,
}: {
  paths: () => readonly string[];
  tokens: Pick<TokenSource, "names">;
}): ReadConfiguredNames {
  return async () => ({
    endpoints: [...paths()],
    networks: [...new Set(tokens.names().map((token): string => token.network))],
  });
}
