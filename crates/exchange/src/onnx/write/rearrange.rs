//! Rearranging by ONNX's own operators.

use network::{NodeId, Rearrange};

use super::Writer;
use super::fields::{int, ints};

/// What happens to one dimension of the input before the axes change places.
struct Cut {
    start: usize,
    /// Elements that are kept, from `start` on and around the end.
    count: usize,
    step: usize,
    /// The output axes that the dimension is split into, the slowest first.
    axes: Vec<usize>,
}

/// The dimensions' cuts, if each output axis walks along one dimension at most, and
/// every dimension is cut in one go.
fn cuts(rearrange: &Rearrange) -> Option<Vec<Cut>> {
    let long = |k: &usize| rearrange.axes[*k].count > 1;
    let mut cuts = Vec::with_capacity(rearrange.sizes.len());
    for (d, &size) in rearrange.sizes.iter().enumerate() {
        let step = |k: usize| rearrange.axes[k].steps[d];
        let along = |k: &usize| step(*k) != 0;
        let mut axes: Vec<usize> = (0..rearrange.axes.len())
            .filter(long)
            .filter(along)
            .collect();
        axes.sort_by_key(|&k| std::cmp::Reverse(step(k)));
        let start = rearrange.starts[d];
        let least = axes.last().map_or(1, |&k| step(k));
        let mut count = 1;
        for &k in axes.iter().rev() {
            if step(k) != least * count {
                return None;
            }
            count *= rearrange.axes[k].count;
        }
        let inside = start + (count - 1) * least < size;
        if !(inside || least == 1 && count <= size) || (axes.len() > 1 && least != 1) {
            return None;
        }
        cuts.push(Cut {
            start,
            count,
            step: least,
            axes,
        });
    }
    let mut used: Vec<usize> = cuts.iter().flat_map(|cut| cut.axes.clone()).collect();
    used.sort_unstable();
    used.is_sorted_by(|a, b| a < b).then_some(cuts)
}

impl Writer<'_> {
    /// `N x H x W x C` of the rearranged value of a node.
    pub(super) fn rearrange(&mut self, name: &str, input: NodeId, rearrange: &Rearrange) {
        let source = self.channels_last(input);
        let shape = rearrange.shape;
        let image = [0, shape.height, shape.width, shape.channels];
        let Some(cuts) = cuts(rearrange) else {
            let flat = format!("{name}/flat");
            self.emit("Flatten", &flat, &[&source], vec![int("axis", 1)]);
            let mut places = Vec::with_capacity(shape.len());
            rearrange.places(|place| places.push(place as i64));
            let places = self.int_initialiser(format!("{name}/places"), &places);
            let picked = format!("{name}/picked");
            self.emit("Gather", &picked, &[&flat, &places], vec![int("axis", 1)]);
            return self.reshape(&picked, name, &image);
        };
        let mut value = format!("{name}/tensor");
        let sizes: Vec<usize> = [0]
            .into_iter()
            .chain(rearrange.sizes.iter().copied())
            .collect();
        self.reshape(&source, &value, &sizes);
        for (d, cut) in cuts.iter().enumerate() {
            let size = rearrange.sizes[d];
            if cut.start == 0 && cut.count == size {
                continue;
            }
            let end = cut.start + (cut.count - 1) * cut.step + 1;
            let part = format!("{name}/dimension{d}");
            if end <= size {
                self.slice(&value, &part, d + 1, [cut.start, end, cut.step]);
            } else {
                let (tail, head) = (format!("{part}-tail"), format!("{part}-head"));
                self.slice(&value, &tail, d + 1, [cut.start, size, 1]);
                self.slice(&value, &head, d + 1, [0, end - size, 1]);
                self.emit("Concat", &part, &[&tail, &head], vec![int("axis", d + 1)]);
            }
            value = part;
        }
        let order: Vec<usize> = cuts.iter().flat_map(|cut| cut.axes.clone()).collect();
        let count = |&k: &usize| rearrange.axes[k].count;
        let sizes: Vec<usize> = [0].into_iter().chain(order.iter().map(count)).collect();
        if !order.is_sorted() {
            let split = format!("{name}/split");
            self.reshape(&value, &split, &sizes);
            value = format!("{name}/turned");
            let mut sorted = order.clone();
            sorted.sort_unstable();
            let at = |k: &usize| 1 + order.iter().position(|o| o == k).unwrap_or_default();
            let perm: Vec<usize> = [0].into_iter().chain(sorted.iter().map(at)).collect();
            self.emit("Transpose", &value, &[&split], vec![ints("perm", &perm)]);
        }
        let repeated = |k: usize| rearrange.axes[k].count > 1 && !order.contains(&k);
        if (0..rearrange.axes.len()).any(repeated) {
            let counts = rearrange.axes.iter().map(|axis| axis.count);
            let sizes = counts.clone().enumerate();
            let sizes = sizes.map(|(k, n)| if repeated(k) { 1 } else { n });
            let sizes: Vec<usize> = [0].into_iter().chain(sizes).collect();
            let single = format!("{name}/single");
            self.reshape(&value, &single, &sizes);
            value = format!("{name}/repeated");
            let sizes: Vec<i64> = [1].into_iter().chain(counts.map(|n| n as i64)).collect();
            let sizes = self.int_initialiser(format!("{value}-sizes"), &sizes);
            self.emit("Expand", &value, &[&single, &sizes], vec![]);
        }
        self.reshape(&value, name, &image);
    }

    /// Another shape; 0 stands for the batch.
    pub(super) fn reshape(&mut self, input: &str, name: &str, sizes: &[usize]) {
        let sizes: Vec<i64> = sizes.iter().map(|&size| size as i64).collect();
        let sizes = self.int_initialiser(format!("{name}/sizes"), &sizes);
        self.emit("Reshape", name, &[input, &sizes], vec![]);
    }

    fn slice(&mut self, input: &str, name: &str, axis: usize, range: [usize; 3]) {
        let mut constant = |part: &str, value: usize| {
            self.int_initialiser(format!("{name}/{part}"), &[value as i64])
        };
        let [start, end, step] = range;
        let starts = constant("starts", start);
        let ends = constant("ends", end);
        let axes = constant("axes", axis);
        let steps = constant("steps", step);
        self.emit(
            "Slice",
            name,
            &[input, &starts, &ends, &axes, &steps],
            vec![],
        );
    }
}
