/** A webhook endpoint as it is configured, without anything secret, and what came to it in the last 24 hours. */
export type Endpoint = {
  path: string;
  /** False of one that had requests and is no longer configured. */
  configured: boolean;
  name: string | null;
  preset: string | null;
  /** How a sender proves who it is. */
  auth: string | null;
  /** The job indexes that it calls. */
  jobs: number[];
  counts: EndpointCounts;
};

type EndpointCounts = {
  accepted: number;
  replayed: number;
  dropped: number;
  handshakes: number;
  /** By error code. */
  refused: Record<string, number>;
  /** 401s by reason. */
  unauthorized: Record<string, number>;
  /** When the newest of these came, by reason. */
  unauthorized_newest: Record<string, string>;
};

/** What a job costs, and who may buy it. */
export type SoldJob = {
  job: string;
  name: string | null;
  description: string | null;
  invocation_mode: string;
  price_wei: string;
  /** In each token whose rate is known now, in its smallest units. */
  offers: { network: string; asset: string; symbol: string; decimals: number; amount: string }[];
};

/** Of a token: tokens for 10^18 wei. */
export type Rate = {
  network: string;
  asset: string;
  symbol: string;
  min_rate: string | null;
  max_rate: string | null;
  age_ms: number | null;
  offered: boolean;
  source: string;
  value: string | null;
  reason: string | null;
  last_failure: { reason: string; age_ms: number } | null;
  /** The rate at the end of each step, the last one's of now, the oldest first; null if it is fixed. */
  history: { from: string; step_ms: number; values: (string | null)[] } | null;
};

export type Prices = { rates: Rate[]; jobs: SoldJob[] };
