/** What happened to calls in each span of time, the oldest first. The times are of the spans' beginnings. */
export type FlowLine = {
  origin: string;
  accepted: number[];
  refused: number[];
  injected: number[];
  failed: number[];
  p50_ms: (number | null)[];
  p99_ms: (number | null)[];
};

export type FlowJob = {
  origin: string;
  /** Null of the jobs that found no place. */
  job: string | null;
  accepted: number;
  injected: number;
  delayed: number;
  failed: number;
  p50_ms: number | null;
  p99_ms: number | null;
};

export type Flow = {
  from: string;
  step_ms: number;
  lines: FlowLine[];
  jobs: FlowJob[];
  is_incomplete: boolean;
};

type QueueStatus = {
  origin: string;
  waiting: number;
  delayed: number;
  active: number;
  failed: number;
  oldest_age_ms: number | null;
};

export type ProcessStatus = {
  kind: string;
  host: string;
  pid: number;
  version: string;
  config: string;
  durability: string;
  started_at: string;
  silent_ms: number;
};

export type RedisStatus = {
  durability: string;
  problem?: string;
  proof?: string;
  memory_ratio?: number | null;
  maxmemory_bytes?: number;
};

export type Status = {
  at: string;
  queues: QueueStatus[];
  workers: { id: string; heartbeat_age_ms: number }[];
  processes: ProcessStatus[];
  processes_unreadable: number;
  redis: RedisStatus;
};
