import { loadConfig } from "../../../shared/config/config-dir.ts";
import { readX402 } from "../../../shared/pricing/read-x402.ts";
import { dirWith, problemsOf as problemsThrown } from "./files.ts";

export const USDC = "0x036CbD53842c5426634e7929541eC2318f3dCF7e";
export const PAY_TO = "0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266";
export const CONTRACT = "0x70997970C51812dc3A010C7d01b50e0d17dc79C8";

export type Lines = Record<string, string | undefined>;

const toml = (lines: Lines): string =>
  Object.entries(lines)
    .flatMap(([key, value]) => (value === undefined ? [] : [`${key} = ${value}\n`]))
    .join("");

/** Returns a valid x402.toml with these changes; undefined removes a key. Values are TOML. */
export function x402(
  top: Lines = {},
  { token = {}, more = "" }: { token?: Lines; more?: string } = {},
): string {
  const general = toml({
    public_url: '"https://jobs.example.com"',
    facilitator_url: '"https://facilitator.example.com"',
    quote_secret: '"a quote secret of one\'s own"',
    ...top,
  });
  return `${general}${tokenTable(token)}${more}`;
}

export const tokenTable = (token: Lines = {}): string =>
  `[[accepted_tokens]]\n${toml({
    network: '"eip155:84532"',
    asset: `"${USDC}"`,
    symbol: '"USDC"',
    decimals: "6",
    pay_to: `"${PAY_TO}"`,
    rate_per_native_unit: '"3200"',
    eip3009_name: '"USDC"',
    eip3009_version: '"2"',
    rpc_url: '"https://node.example.com"',
    ...token,
  })}`;

export const policyTable = (policy: Lines): string => `[[job_policies]]\n${toml(policy)}`;

/** A job policy with all keys of a restricted job. */
export const restricted = {
  service_id: "1",
  job_index: "7",
  invocation_mode: '"restricted_paid"',
  auth_mode: '"delegated_caller_signature"',
  rpc_url: '"http://127.0.0.1:8545"',
  contract: `"${CONTRACT}"`,
};

/** One job of service 1, at 10^15 wei. */
export const JOBS = '[1]\n7 = "100000000000000"\n';

type X402Files = { x402?: string; jobs?: string; postern?: string };

export const x402Dir = ({ x402, jobs, postern }: X402Files): string =>
  dirWith({ "x402.toml": x402, "job_pricing.toml": jobs, "postern.toml": postern });

export const load = (files: X402Files, env = {}) => loadConfig(readX402, { dir: x402Dir(files), env });

export const problems = (files: X402Files): string[] => problemsThrown(() => load(files));

/** Returns the problems of an x402.toml with this at its top. */
export const problemsOf = (top: Lines, rest?: { token?: Lines; more?: string }): string[] =>
  problems({ x402: x402(top, rest) });
