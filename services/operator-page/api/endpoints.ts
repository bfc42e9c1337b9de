/** A webhook endpoint as it is configured, without anything secret, and what came to it in the last 24 hours. */
export type Endpoint = {
  path: string;
  preset: string | null;
  /** How a sender shows who it is, in words. */
  credential: string;
  /** `<service id>/<job index>` of each job that it calls. */
  jobs: string[];
  counts: EndpointCounts;
};

export type EndpointCounts = {
  accepted: number;
  replayed: number;
  dropped: number;
  handshakes: number;
  /** By error code. */
  refused: Record<string, number>;
  /** 401s by reason. */
  unauthorized: Record<string, number>;
};

/** What a job costs. */
export type SoldJob = {
  job: string;
  price_wei: string;
  policy: string;
  /** In each token that is accepted for it, as far as its rate is known. */
  prices: { network: string; symbol: string; asset: string; amount: string | null; decimals: number }[];
};
