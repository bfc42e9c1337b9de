import type { EndpointToml } from "../config/webhooks-toml.ts";
import { shellQuote } from "../text/shell-quote.ts";
import { credentialHeader } from "./credential-header.ts";

export type CurlOptions = {
  /** `host:port` of the gateway. */
  address: string;
  body: string;
  contentType?: string;
  /**
   * Whether the credential itself may be shown: only one that was made for this run. Otherwise the shell's $SECRET
   * stands in its place; a signature is shown always, since it holds for this body only.
   */
  showSecret: boolean;
};

/** A command that a terminal takes as it stands and the gateway answers with 202. */
export function readyCurl(endpoint: EndpointToml, options: CurlOptions): string {
  const { address, body, contentType = "application/json" } = options;
  const headers = [shellQuote(`Content-Type: ${contentType}`), ...credential(endpoint, options)];
  const flags = headers.map((header) => `-H ${header}`);
  return [
    "curl",
    "-i",
    shellQuote(`http://${address}${endpoint.path}`),
    ...flags,
    "--data-raw",
    shellQuote(body),
  ].join(" ");
}

function credential(endpoint: EndpointToml, { body, showSecret }: CurlOptions): string[] {
  const header = credentialHeader(endpoint, body, showSecret ? undefined : "$SECRET");
  if (header === undefined) return [];
  const line = `${header.name}: ${header.value}`;
  return [line.endsWith("$SECRET") && !showSecret ? `"${line}"` : shellQuote(line)];
}
