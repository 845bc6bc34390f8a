//! The figures of source document 002, as printed there. This file has no results of the simulator.

/// Pages swapped in: mean and standard deviation of five runs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pswpin {
    /// Mean.
    pub mean: f64,
    /// Standard deviation.
    pub std: f64,
}

/// The results for one parameter set of the ebizzy table, which prints them as three rows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Row {
    /// Number of threads.
    pub threads: u32,
    /// Memory allocated, MiB.
    pub mib: u32,
    /// The zipf exponent.
    pub alpha: f64,
    /// Pages swapped in by each kernel: base, prot, detect.
    pub kernels: [Pswpin; 3],
    /// Changes against base, in percent, of prot, then of detect; negative is better.
    pub improvements: [f64; 2],
}

/// The document's figures of the first experiment (`scenario`): pages swapped in, pages swapped
/// out; means of five runs. The first pair is of the kernel without the patches (base), the second
/// of the kernel with all of them.
pub const SCENARIO: [(f64, f64); 2] = [(863_240.0, 989_945.0), (681_565.0, 809_273.0)];

/// A printed row: threads, MiB, exponent; then mean, standard deviation and improvement, one for
/// each kernel.
type Printed = (u32, u32, f64, [f64; 2], [f64; 3], [f64; 3]);

#[rustfmt::skip]
#[expect(clippy::approx_constant, reason = "6.28 percent is no circle")]
const PRINTED: [Printed; 30] = [
    (1, 1024, 0.1, [14_101_983.4, 79_441.19], [14_065_875.8, 136_413.01, -0.26], [13_910_435.6, 100_804.82, -1.36]),
    (1, 1024, 0.7, [7_998_368.8, 43_469.32], [7_622_245.8, 88_318.74, -4.7], [7_618_515.2, 59_742.07, -4.75]),
    (1, 1024, 1.3, [1_017_400.8, 38_756.3], [940_464.6, 29_310.69, -7.56], [945_511.4, 24_579.52, -7.07]),
    (1, 1280, 0.1, [22_895_541.4, 50_016.08], [22_860_305.4, 51_952.37, -0.15], [22_705_565.2, 93_380.35, -0.83]),
    (1, 1280, 0.7, [13_717_645.6, 46_250.65], [12_935_355.8, 64_754.43, -5.7], [13_040_232.0, 63_304.0, -4.94]),
    (1, 1280, 1.3, [1_654_251.4, 4_159.68], [1_522_680.6, 33_673.5, -7.95], [1_599_207.0, 70_327.89, -3.33]),
    (1, 1536, 0.1, [31_621_775.4, 31_156.28], [31_540_355.2, 62_241.36, -0.26], [31_420_056.0, 123_831.27, -0.64]),
    (1, 1536, 0.7, [19_620_760.6, 60_937.6], [18_337_839.6, 56_102.58, -6.54], [18_599_128.0, 75_289.48, -5.21]),
    (1, 1536, 1.3, [2_378_142.4, 20_994.43], [2_166_260.6, 48_455.46, -8.91], [2_183_762.2, 16_883.24, -8.17]),
    (1, 1792, 0.1, [40_259_714.8, 90_750.7], [40_053_917.2, 64_509.47, -0.51], [39_949_736.4, 104_989.64, -0.77]),
    (1, 1792, 0.7, [25_704_884.4, 69_429.68], [23_937_389.0, 79_945.6, -6.88], [24_271_902.0, 35_044.3, -5.57]),
    (1, 1792, 1.3, [3_129_497.0, 32_731.86], [2_796_994.4, 19_017.26, -10.62], [2_886_840.4, 33_938.82, -7.75]),
    (1, 2048, 0.1, [48_746_924.4, 50_863.88], [48_631_954.4, 24_537.3, -0.24], [48_509_419.8, 27_085.34, -0.49]),
    (1, 2048, 0.7, [32_046_424.4, 78_624.22], [29_764_182.2, 86_002.26, -7.12], [30_250_315.8, 101_282.14, -5.6]),
    (1, 2048, 1.3, [3_916_723.6, 24_048.55], [3_490_781.6, 33_292.61, -10.87], [3_585_002.2, 44_942.04, -8.47]),
    (8, 1024, 0.1, [16_219_822.6, 329_474.01], [15_959_494.0, 654_597.45, -1.61], [15_773_790.8, 502_275.25, -2.75]),
    (8, 1024, 0.7, [9_174_107.8, 537_619.33], [8_571_915.0, 385_230.08, -6.56], [8_489_484.2, 364_683.0, -7.46]),
    (8, 1024, 1.3, [1_108_495.6, 83_555.98], [1_038_906.2, 63_465.2, -6.28], [941_817.8, 32_648.8, -15.04]),
    (8, 1280, 0.1, [25_776_114.2, 450_480.45], [25_430_847.0, 465_627.07, -1.34], [25_282_555.0, 465_666.55, -1.91]),
    (8, 1280, 0.7, [15_218_968.0, 702_007.69], [13_957_947.8, 492_643.86, -8.29], [14_158_331.2, 238_656.02, -6.97]),
    (8, 1280, 1.3, [1_792_482.8, 30_512.9], [1_577_686.4, 34_002.62, -11.98], [1_556_133.0, 22_944.79, -13.19]),
    (8, 1536, 0.1, [33_923_761.4, 575_455.85], [32_715_766.2, 300_633.51, -3.56], [33_158_477.4, 117_764.51, -2.26]),
    (8, 1536, 0.7, [20_628_907.8, 303_851.34], [19_329_511.2, 341_719.31, -6.3], [20_013_934.0, 385_358.66, -2.98]),
    (8, 1536, 1.3, [2_588_106.4, 130_769.2], [2_275_222.4, 89_637.06, -12.09], [2_365_008.4, 124_412.55, -8.62]),
    (8, 1792, 0.1, [43_328_279.2, 946_469.12], [41_481_980.8, 525_690.89, -4.26], [41_713_944.6, 406_798.93, -3.73]),
    (8, 1792, 0.7, [27_155_647.4, 536_253.57], [24_989_406.8, 502_734.52, -7.98], [25_524_806.4, 263_237.87, -6.01]),
    (8, 1792, 1.3, [3_260_372.8, 137_907.92], [2_879_187.8, 63_597.26, -11.69], [2_892_962.2, 33_229.13, -11.27]),
    (8, 2048, 0.1, [50_583_989.8, 710_121.48], [49_599_984.4, 228_782.42, -1.95], [50_578_596.0, 660_971.66, -0.01]),
    (8, 2048, 0.7, [33_765_479.6, 812_659.55], [30_767_021.2, 462_907.24, -8.88], [32_213_068.8, 211_884.24, -4.6]),
    (8, 2048, 1.3, [3_941_675.8, 28_436.45], [3_538_742.4, 76_856.08, -10.22], [3_579_397.8, 58_630.95, -9.19]),
];

/// Returns the rows of the ebizzy table, in the document's order.
pub fn ebizzy() -> impl Iterator<Item = Row> {
    PRINTED
        .iter()
        .map(|&(threads, mib, alpha, base, prot, detect)| {
            let kernel = |mean, std| Pswpin { mean, std };
            Row {
                threads,
                mib,
                alpha,
                kernels: [
                    kernel(base[0], base[1]),
                    kernel(prot[0], prot[1]),
                    kernel(detect[0], detect[1]),
                ],
                improvements: [prot[2], detect[2]],
            }
        })
}

impl Row {
    /// Returns the standard deviation of the improvement of kernel `n` (1 prot, 2 detect), in
    /// percent. It is computed from the standard deviations of the two means.
    #[must_use]
    pub fn improvement_std(&self, n: usize) -> f64 {
        let relative = |n: usize| self.kernels[n].std / self.kernels[n].mean;
        self.kernels[n].mean / self.kernels[0].mean * relative(0).hypot(relative(n)) * 100.0
    }
}

/// The machine of the document, which the document does not describe. It follows from the rows of
/// exponent 0.1: a straight line through pages swapped in, by MiB allocated. The line is zero at
/// the memory that the program had.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Machine {
    /// Memory that the program had, MiB.
    pub mib: f64,
    /// How often each page was touched: the number of pages swapped in, per page that did not fit
    /// in memory.
    pub passes: f64,
}

/// Returns the machine for this number of threads, from the rows of base with exponent 0.1 (least
/// squares).
#[must_use]
pub fn machine(threads: u32) -> Machine {
    let points: Vec<(f64, f64)> = ebizzy()
        .filter(|row| row.threads == threads && row.alpha < 0.5)
        .map(|row| (f64::from(row.mib), row.kernels[0].mean))
        .collect();
    let mean = |of: fn(&(f64, f64)) -> f64| {
        crate::stats::mean(&points.iter().map(of).collect::<Vec<f64>>())
    };
    let (x, y) = (mean(|p| p.0), mean(|p| p.1));
    let covariance: f64 = points.iter().map(|p| (p.0 - x) * (p.1 - y)).sum();
    let variance: f64 = points.iter().map(|p| (p.0 - x) * (p.0 - x)).sum();
    let slope = covariance / variance;
    Machine {
        mib: x - y / slope,
        passes: slope / 256.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The document says that each improvement follows from the means.
    #[test]
    fn improvements_are_those_of_the_means() {
        assert_eq!(ebizzy().count(), 30);
        for row in ebizzy() {
            for n in [1, 2] {
                let improvement = (row.kernels[n].mean / row.kernels[0].mean - 1.0) * 100.0;
                assert!(
                    (improvement - row.improvements[n - 1]).abs() < 0.006,
                    "{row:?}"
                );
            }
        }
    }

    #[test]
    fn the_machine_of_the_document_is_computed() {
        let [one, eight] = [1, 8].map(machine);
        let near = |a: f64, b: f64| (a - b).abs() < 0.5;
        assert!(near(one.mib, 604.7) && near(one.passes, 132.2), "{one:?}");
        assert!(
            near(eight.mib, 528.2) && near(eight.passes, 131.7),
            "{eight:?}"
        );
    }
}
