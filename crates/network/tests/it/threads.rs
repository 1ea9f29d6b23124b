//! Results on the CPU do not depend on its threads.

use network::{Cpu, Mode};

use crate::common::{model, pixels, pool};
use crate::verbs::{small, verbs, zoo};

#[test]
fn is_the_same_to_the_bit_for_any_number_of_threads() {
    for (graph, images) in [(small("resnet20-cifar").0, 37), (zoo(), 5)] {
        let model = model(graph);
        let images = pixels(images * model.graph.input().len(), 1);
        for mode in [Mode::Train, Mode::Eval, Mode::Frozen] {
            let one = verbs(&mut Cpu::new(&model, pool(1)), &images, mode);
            for threads in [2, 3] {
                let more = verbs(&mut Cpu::new(&model, pool(threads)), &images, mode);
                assert!(one == more, "{mode:?}, {threads} threads");
            }
        }
    }
}
