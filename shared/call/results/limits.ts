/** How long results are kept, and how many bytes they may take. */
export type ResultLimits = {
  /** How long one is kept, if there is room. */
  resultMs: number;
  /** Of a longer body only that it was too long. */
  resultBytesMax: number;
  /** What all together may take. The oldest give way. */
  bytesMax: number;
};

export const RESULT_LIMITS: ResultLimits = {
  resultMs: 86_400_000,
  resultBytesMax: 256 * 1024,
  bytesMax: 256 * 1024 * 1024,
};
