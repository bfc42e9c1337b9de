import { z } from "zod";

/** `{ per_second = 50, burst = 100 }`: a token bucket (shared/gateway/rate-limit.ts). */
const rateLimit = z
  .strictObject({
    per_second: z.number().min(0.001).max(100_000),
    burst: z.int().min(1).max(1_000_000).optional(),
  })
  .transform(({ per_second, burst }) => ({
    perSecond: per_second,
    burst: burst ?? Math.max(1, Math.ceil(per_second)),
  }));

/** The keys by which an endpoint limits what it takes, and says what is kept of what it refuses. */
export const limitsOfEndpoint = {
  rate_limit: rateLimit.optional(),
  rate_limit_per_address: rateLimit.optional(),
  keep_rejected_bodies: z.boolean().default(false),
};

/** The refused credentials of one address that are answered with 401; the others of that minute get 429. */
export const refusalsPerMinute = z.int().min(1).max(100_000).default(60);
