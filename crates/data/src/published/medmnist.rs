//! MedMNIST's flat data sets of one label an image, 28 x 28: J. Yang and others, *MedMNIST
//! v2*, Scientific Data, 2023, <https://medmnist.com>. Checksums and names of classes are
//! those of its package, version 3.0.2. ChestMNIST, whose images have several labels or
//! none, and the volumes are not among them.

use super::{File, Form, Published, Sum};

/// A data set of one file.
macro_rules! set {
    ($name:literal, $about:literal, $md5:literal, $classes:expr) => {
        Published {
            name: concat!("medmnist/", $name),
            about: $about,
            files: &[File {
                name: concat!($name, ".npz"),
                url: concat!(
                    "https://zenodo.org/records/10519652/files/",
                    $name,
                    ".npz?download=1"
                ),
                sum: Sum::Md5($md5),
            }],
            form: Form::MedMnist($classes),
        }
    };
}

const ORGANS: &[&str] = &[
    "bladder",
    "femur-left",
    "femur-right",
    "heart",
    "kidney-left",
    "kidney-right",
    "liver",
    "lung-left",
    "lung-right",
    "pancreas",
    "spleen",
];

/// All of them.
pub(crate) const MED_MNIST: [Published; 11] = [
    set!(
        "pathmnist",
        "MedMNIST, colon tissue, 28 x 28 RGB, 89996 train, 7180 test",
        "a8b06965200029087d5bd730944a56c1",
        &[
            "adipose",
            "background",
            "debris",
            "lymphocytes",
            "mucus",
            "smooth muscle",
            "normal colon mucosa",
            "cancer-associated stroma",
            "colorectal adenocarcinoma epithelium"
        ]
    ),
    set!(
        "dermamnist",
        "MedMNIST, skin lesions, 28 x 28 RGB, 7007 train, 2005 test",
        "0744692d530f8e62ec473284d019b0c7",
        &[
            "actinic keratoses and intraepithelial carcinoma",
            "basal cell carcinoma",
            "benign keratosis-like lesions",
            "dermatofibroma",
            "melanoma",
            "melanocytic nevi",
            "vascular lesions"
        ]
    ),
    set!(
        "octmnist",
        "MedMNIST, retinal tomography, 28 x 28 grey, 97477 train, 1000 test",
        "c68d92d5b585d8d81f7112f81e2d0842",
        &[
            "choroidal neovascularization",
            "diabetic macular edema",
            "drusen",
            "normal"
        ]
    ),
    set!(
        "pneumoniamnist",
        "MedMNIST, chest X-rays, 28 x 28 grey, 4708 train, 624 test",
        "28209eda62fecd6e6a2d98b1501bb15f",
        &["normal", "pneumonia"]
    ),
    set!(
        "retinamnist",
        "MedMNIST, fundus photographs, 28 x 28 RGB, 1080 train, 400 test",
        "bd4c0672f1bba3e3a89f0e4e876791e4",
        &["0", "1", "2", "3", "4"]
    ),
    set!(
        "breastmnist",
        "MedMNIST, breast ultrasound, 28 x 28 grey, 546 train, 156 test",
        "750601b1f35ba3300ea97c75c52ff8f6",
        &["malignant", "normal, benign"]
    ),
    set!(
        "bloodmnist",
        "MedMNIST, blood cells, 28 x 28 RGB, 11959 train, 3421 test",
        "7053d0359d879ad8a5505303e11de1dc",
        &[
            "basophil",
            "eosinophil",
            "erythroblast",
            "immature granulocytes(myelocytes, metamyelocytes and promyelocytes)",
            "lymphocyte",
            "monocyte",
            "neutrophil",
            "platelet"
        ]
    ),
    set!(
        "tissuemnist",
        "MedMNIST, kidney cells, 28 x 28 grey, 165466 train, 47280 test",
        "ebe78ee8b05294063de985d821c1c34b",
        &[
            "Collecting Duct, Connecting Tubule",
            "Distal Convoluted Tubule",
            "Glomerular endothelial cells",
            "Interstitial endothelial cells",
            "Leukocytes",
            "Podocytes",
            "Proximal Tubule Segments",
            "Thick Ascending Limb"
        ]
    ),
    set!(
        "organamnist",
        "MedMNIST, abdominal CT, axial, 28 x 28 grey, 34561 train, 17778 test",
        "68e3f8846a6bd62f0c9bf841c0d9eacc",
        ORGANS
    ),
    set!(
        "organcmnist",
        "MedMNIST, abdominal CT, coronal, 28 x 28 grey, 12975 train, 8216 test",
        "b9ceb9546e10131b32923c5bbeaea2b1",
        ORGANS
    ),
    set!(
        "organsmnist",
        "MedMNIST, abdominal CT, sagittal, 28 x 28 grey, 13932 train, 8827 test",
        "9ab87b696fb54e2a387ebe992d6ed5f1",
        ORGANS
    ),
];
