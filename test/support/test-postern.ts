import { type PosternToml, posternToml } from "../../shared/config/postern-toml.ts";
import { Secret } from "../../shared/platform/crypto/secret.ts";

const SCHEMA = posternToml({ env: {} });

/** Limits that no test reaches by chance. */
const AMPLE = { queue_bytes_max: 1e12 };

/** Changes to `postern.toml` for a test. Numbers may be below the file's minimum. */
export type PosternChanges = {
  durability?: PosternToml["redis"]["durability"];
  limits?: Partial<PosternToml["limits"]>;
  enqueueTimeoutMs?: number;
  http?: Partial<PosternToml["http"]>;
  results?: Partial<PosternToml["results"]>;
  /** Secrets that sign result tokens. */
  resultSecrets?: readonly string[];
  metadataPrefix?: string;
};

/** Returns a validated `postern.toml` with these changes. */
export function testPostern(changes: PosternChanges = {}): PosternToml {
  const postern = SCHEMA.parse({ limits: AMPLE });
  const { durability = "strict", enqueueTimeoutMs, resultSecrets, metadataPrefix } = changes;
  return {
    ...postern,
    metadata_prefix: metadataPrefix ?? postern.metadata_prefix,
    redis: { ...postern.redis, durability },
    limits: {
      ...postern.limits,
      ...(enqueueTimeoutMs !== undefined && { enqueue_timeout_ms: enqueueTimeoutMs }),
      ...changes.limits,
    },
    http: { ...postern.http, ...changes.http },
    results: {
      ...postern.results,
      ...(resultSecrets && { secret: resultSecrets.map((secret) => new Secret(secret)) }),
      ...changes.results,
    },
  };
}
