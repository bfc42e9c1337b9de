/** A token that is accepted: an entry of `[[accepted_tokens]]` of `x402.toml` in camelCase (docs/payments.md). */
export type TokenOptions = TokenBasics &
  (
    | {
        /** The default. */
        transferMethod?: "eip3009";
        /** The token's EIP-712 domain: what its contract answers to `name()` and `version()`. */
        eip3009Name: string;
        eip3009Version: string;
        /** Which of its two events a transfer emits first. `used_first` by default. */
        eventOrder?: "used_first" | "transfer_first";
      }
    | { transferMethod: "permit2" }
  );

type TokenBasics = {
  /** `eip155:` and the chain id. */
  network: string;
  /** The token's contract, and who is paid: addresses. */
  asset: string;
  payTo: string;
  /** As people say it. */
  symbol: string;
  decimals: number;
  /** Tokens for 10^18 wei: a decimal number as text, or its source. That of the gateway by default. */
  ratePerNativeUnit?: string | RateOptions;
  /** Limits of a rate that is read, as text. None by default. */
  minRate?: string;
  maxRate?: string;
  /** Seconds between reads (60 by default), and after which a rate is too old (900). */
  rateRefreshSecs?: number;
  maxRateAgeSecs?: number;
  /** In hundredths of a percent. 0 by default. */
  markupBps?: number;
  /** Whether it is offered in version 1 of x402 too. True by default. */
  v1?: boolean;
  /** A node of the chain; a URL, `env:NAME` or `file:/path`. Only `trustFacilitator` does without. */
  rpcUrl?: string;
  /** What proves a settlement. `receipt` by default. */
  settlementProof?: "receipt" | "facilitator";
  /** Blocks upon the payment's before it counts as final. 2 by default. */
  confirmations?: number;
  /** Blocks after which a payment that is not there is void, where the node does not say what is final. 512 by default. */
  voidDepth?: number;
  /** Addresses that refunds come from. None by default. */
  refundFrom?: readonly string[];
};

/** Where a rate comes from (docs/pricing.md). */
export type RateOptions =
  | SingleRateOptions
  | {
      source: "median";
      of: readonly SingleRateOptions[];
      /** How far a source may be from the median, in hundredths of a percent. */
      maxDeviationBps: number;
      /** More than half of them by default. */
      minSources?: number;
    };

export type SingleRateOptions =
  | { source: "fixed"; rate: string }
  | {
      source: "chainlink";
      rpcUrl: string;
      feed: string;
      maxAgeSecs: number;
      /** True if the feed answers native units for a token. False by default. */
      invert?: boolean;
      sequencerFeed?: string;
      /** 3600 by default. */
      sequencerGraceSecs?: number;
    }
  | {
      source: "uniswap_v3_twap";
      rpcUrl: string;
      pool: string;
      /** The wrapped native coin: one of the pool's two tokens. */
      nativeToken: string;
      /** 1800 by default. */
      windowSecs?: number;
      /** 600 by default. */
      maxAgeSecs?: number;
    }
  | {
      source: "http_json";
      url: string;
      /** A JSON Pointer to the number. */
      pointer: string;
      headers?: Readonly<Record<string, string>>;
    };

/** The EIP-712 domain of signed quotes. */
export type DomainOptions = {
  /** `TangleQuote` by default. */
  name?: string;
  /** `1` by default. */
  version?: string;
  chainId: number;
  verifyingContract: string;
};
